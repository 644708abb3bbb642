"""Requests as text, and how their answers are read: one module for each kind of request."""
