"""Deliveries at a level (urn:xmpp:qos): which they have, and what becomes of one that is answered or not."""
