"""Reads that take nothing: retrieved items, pages of events, items and nodes."""
