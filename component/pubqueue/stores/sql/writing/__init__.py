"""Writes the changes of a batch."""
