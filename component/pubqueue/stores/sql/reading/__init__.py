"""Reads rows: by their keys, in pages, and what is ready or due."""
