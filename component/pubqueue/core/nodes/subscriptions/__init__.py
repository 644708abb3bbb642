"""Subscriptions to a node: requested, approved, configured, reviewed (XEP-0060 6, 8.5, 8.6)."""
