"""Reads rows: by their keys, in pages, and ready or due ones."""
