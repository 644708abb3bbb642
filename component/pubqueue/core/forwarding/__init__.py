"""Notices for connections of other instances."""
