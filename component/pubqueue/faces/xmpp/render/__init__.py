"""Renders replies and notices to bytes."""
