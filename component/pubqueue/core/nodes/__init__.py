"""Nodes, their settings, affiliations and subscriptions."""
