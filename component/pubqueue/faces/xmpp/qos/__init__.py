"""Quality of Service (urn:xmpp:qos): messages inside IQs to the service."""
