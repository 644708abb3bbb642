"""The connection of a worker or publisher, which reconnects, and requests that are repeated until they are answered."""

from pubqueue_xeps.client.xmpp_client import Client, Tls, login, logout, make_client

__all__ = ["Client", "Tls", "login", "logout", "make_client"]
