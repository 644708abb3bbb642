"""The words on the wire: namespaces, escaping, refusals, and the text of requests and payloads. No connection, no state."""
