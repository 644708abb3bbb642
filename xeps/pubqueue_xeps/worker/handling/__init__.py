"""Handlers: the items that each matches, their limits, and the middleware around them."""
