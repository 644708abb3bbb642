"""Listens for the clients of a face: addresses, TLS, limits and timeouts. A face sees only connections within the limits.

`Listener` accepts connections; the face makes a protocol for each `ClientConnection`.
"""

from pubqueue.faces.listener.connection import Bounds, ClientConnection
from pubqueue.faces.listener.listener import CannotListenError, Listener
from pubqueue.faces.listener.tls import Place, Tls, TlsError, TlsFiles, places

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
