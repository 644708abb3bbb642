"""Messages of assured service (urn:xmpp:qos): kept when they come, and delivered when that is asked for."""
