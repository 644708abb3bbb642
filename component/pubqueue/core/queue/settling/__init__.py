"""Settling locks one by one, each with its own answer, and remembering how locks were settled."""
