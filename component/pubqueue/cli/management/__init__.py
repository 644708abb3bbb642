"""Commands that run queues: over XMPP, as an administrator or an owner, beside the running service and from anywhere.

They are made of the table of operations (`app.operations`), and need none of the libraries that the service needs.
"""
