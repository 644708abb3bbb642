"""Pushing over HTTP: which targets may be called, the client that calls them, and the verdict on their answers."""
