"""Deliveries of a batch: from which nodes, which items to which subscribers, and which group is next."""
