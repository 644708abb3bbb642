"""Pushing messages to targets over HTTP: the requests that REST sends them."""
