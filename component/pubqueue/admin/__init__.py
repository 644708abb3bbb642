"""Operating a service from elsewhere: over XMPP, over HTTP, or on its own host.

Whatever carries it, an operation has the same name, parameters, answer and errors: those of the table in `operations`.
"""
