"""Writes requests as text and reads their answers, one module for each kind of request."""
