"""slixmpp's component without TLS, which XEP-0114 does not use."""

from __future__ import annotations

import ssl
from typing import Final

from slixmpp.basexmpp import BaseXMPP
from slixmpp.componentxmpp import ComponentXMPP
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from pubqueue_xeps.wire import ns

TRUSTS_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given to slixmpp so that it does not read the system's certificate authorities, which takes 50 to 100 ms."""


class PlainComponent(ComponentXMPP):
    """A component stream without TLS.

    The constructor of ComponentXMPP does not take a TLS context, so slixmpp makes one for each stream. This class replaces that
    constructor; a test compares the results of both.
    """

    def __init__(self, jid: str, secret: str, server: tuple[str, int]) -> None:
        BaseXMPP.__init__(self, jid, ns.COMPONENT, ssl_context=TRUSTS_NOBODY)  # type: ignore[no-untyped-call]
        self._fix_error_ns()  # type: ignore[no-untyped-call]
        self.enable_starttls = False
        self.enable_plaintext = True
        self.auto_authorize = None
        self.stream_header = (
            f'<stream:stream xmlns="{ns.COMPONENT}" xmlns:stream="{self.stream_ns}" to="{jid}">'
        )
        self.stream_footer = "</stream:stream>"
        self.server_host, self.server_port = server
        self.default_domain = self.server_host
        self.secret = secret
        self.plugin_config = {}
        self.plugin_whitelist = []
        self.is_component = True
        self.sessionstarted = False
        accepted = MatchXPath(f"{{{ns.COMPONENT}}}handshake")
        self.register_handler(Callback("Handshake", accepted, self._handle_handshake))
        self.add_event_handler("presence_probe", self._handle_probe)
