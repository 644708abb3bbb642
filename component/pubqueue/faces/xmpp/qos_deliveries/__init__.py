"""Deliveries at a level, as requests that the worker's client answers (urn:xmpp:qos)."""
