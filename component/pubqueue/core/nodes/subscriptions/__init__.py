"""Subscriptions to a node: asked for, approved, configured, reviewed (XEP-0060 6, 8.5, 8.6)."""
