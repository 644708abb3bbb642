"""Handlers: which items are for which, what bounds them, and what is done around each."""
