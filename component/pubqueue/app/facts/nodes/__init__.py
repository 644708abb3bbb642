"""For nodes, their settings, affiliations and subscriptions."""
