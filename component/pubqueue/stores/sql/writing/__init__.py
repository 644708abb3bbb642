"""Writes what a batch has changed."""
