"""Builds the service from its settings: the queue, its faces, HTTP, and the order of start and stop."""
