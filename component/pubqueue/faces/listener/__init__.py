"""Listens for the clients of a face: addresses, TLS, limits and timeouts. A face sees only connections within the limits.

`Listener` accepts connections; the face makes a protocol for each `ClientConnection`.
"""

from pubqueue.faces.listener.bounds import Bounds
from pubqueue.faces.listener.connection import ClientConnection
from pubqueue.faces.listener.listener import CannotListenError, Listener
from pubqueue.faces.listener.places import Place, places
from pubqueue.faces.listener.tls import Tls, TlsError, TlsFiles

__all__ = [
    "Bounds",
    "CannotListenError",
    "ClientConnection",
    "Listener",
    "Place",
    "Tls",
    "TlsError",
    "TlsFiles",
    "places",
]
