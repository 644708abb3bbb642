"""Nodes, their settings, and those around them: affiliations and subscriptions."""
