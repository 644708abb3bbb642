"""Registrations: where the items of a node are pushed to, without polling."""
