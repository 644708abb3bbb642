"""Deliveries of a batch: from which nodes, which items to whom, and which group is next."""
