"""An XMPP client connection whose errors give the reason in one sentence.

slixmpp retries an unreachable server without end and reports each failure as an event; `login` waits for the first
decisive event, and turns it into a return or an exception.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from slixmpp import ClientXMPP
from slixmpp.jid import JID, InvalidJID
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from pubqueue_xeps.client import tls_faults
from pubqueue_xeps.client.tls_faults import Trust
from pubqueue_xeps.errors import LoginFailed, LoginRefused, ServerUnreachable
from pubqueue_xeps.wire.times import Span, span

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from slixmpp.xmlstream import StanzaBase

    Accept = Callable[[asyncio.Protocol], None]


__all__ = ["Client", "LoginFailed", "LoginRefused", "Tls", "login", "logout", "make_client"]

Tls = Literal["required", "direct", "off"]

# RFC 6120 4.9.3: the stream errors that ask the client to try again
PASSING: Final = frozenset(
    {
        "connection-timeout",
        "internal-server-error",
        "remote-connection-failed",
        "reset",
        "resource-constraint",
        "system-shutdown",
        "undefined-condition",
    }
)

# Never ANONYMOUS or EXTERNAL: after a wrong password slixmpp would go on to try them.
MECHANISMS: Final = frozenset(
    {"PLAIN"} | {f"SCRAM-SHA-{bits}{plus}" for bits in (1, 256, 512) for plus in ("", "-PLUS")}
)

_NO_DIRECT_TLS: Final = "If the port is one for STARTTLS, as 5222 is, leave tls=direct out; direct TLS is usually at 5223."

_PERHAPS_DIRECT: Final = "If the port is one for direct TLS, as 5223 is, set tls=direct."

_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no authority, for clients without TLS: loading the system's authorities takes slixmpp a tenth of a second."""

IN_PROCESS: Final[dict[tuple[str, int], Accept]] = {}
"""Servers in this process, for tests, by host and port: until one is removed, a `Client` that would connect there is
connected to it without a socket. Nothing else changes for the client: it opens its stream, logs in and is disconnected
as over TCP. The function accepts a connection. It is called in the client's running event loop with the client's
protocol, and calls its `connection_made`."""


class Client(ClientXMPP):
    """slixmpp's client with a fast path for frequent stanzas.

    `short_way` is called with each incoming stanza as a bare element and returns True for those it has handled; slixmpp
    builds no stanza object for them, which is several times cheaper.
    """

    short_way: Callable[[Element], bool] | None = None
    ca_file: str | None = None
    """The file of authorities that replace the system's."""

    ca_setting: str = "ca_file"
    """What the user calls its setting."""

    def _spawn_event(self, xml: Element) -> None:
        if self.short_way is None or not self.short_way(xml):
            super()._spawn_event(xml)

    async def _attempt_connection(
        self,
        host: str,
        port: int,
        tls: bool,  # noqa: FBT001  slixmpp's signature
        server_hostname: str | None,
    ) -> bool:
        """Connect over TCP, or to the server in this process that has the address."""
        accept = IN_PROCESS.get((host, port))
        if accept is None:
            return await super()._attempt_connection(host, port, tls, server_hostname)
        self.event_when_connected = "connected"
        accept(cast("asyncio.Protocol", self))  # it has the methods, but not the base class
        return True


def make_client(
    jid: str,
    password: str,
    *,
    host: str | None = None,
    port: int = 5222,
    tls: Tls = "required",
    ca_file: str | None = None,
    ca_setting: str = "ca_file",
) -> Client:
    """Make a client for `login`; call it where the event loop is running.

    Without `host`, the DNS records of the JID's domain give the server. `tls` is "required" (STARTTLS), "direct" (TLS
    from the first byte), or "off", which raises ValueError for any host that is not loopback. `ca_file` replaces the
    system's certificate authorities; errors call it `ca_setting`.
    """
    if tls not in get_args(Tls):
        raise ValueError(f"tls is {tls!r}; it takes one of {', '.join(get_args(Tls))}.")
    account = _account(jid)
    if host is None and (tls == "off" or port != 5222):  # noqa: PLR2004  the registered port
        host = account.domain
    if tls == "off" and not _is_loopback(host or ""):
        raise ValueError(f"TLS may be off only on a loopback address, and {host} is not one.")
    unencrypted = {"unencrypted_plain": tls == "off", "unencrypted_scram": tls == "off"}
    client = Client(
        account,
        password,
        plugin_config={"feature_mechanisms": {"use_mechs": set(MECHANISMS), **unencrypted}},
        ssl_context=_trust(ca_file) or (_NOBODY if tls == "off" else None),
    )
    client.enable_starttls = tls == "required"
    client.enable_direct_tls = tls == "direct"
    client.enable_plaintext = tls == "off"
    client.custom_address = (host, port) if host else None
    client.ca_file, client.ca_setting = ca_file, ca_setting
    return client


async def login(client: ClientXMPP, *, timeout: Span = 30) -> None:  # noqa: ASYNC109  a promise
    """Connect; return when the session has started (RFC 6120 sections 5 to 7).

    Raises LoginFailed if the server is not trusted, or has TLS where the client has none or the other way round,
    LoginRefused if it refuses the password, ServerUnreachable if it cannot be reached or started no session within
    `timeout` (seconds or a timedelta). The client is then disconnected, and `login` may be called again.
    """
    seconds = span("timeout", timeout)
    events = _LoginEvents(client)
    events.open()
    limit = asyncio.timeout(seconds)
    try:
        client.connect(*(client.custom_address or (None, None)))
        async with limit:
            await events.verdict
    except TimeoutError:
        await _give_up(client)
        if not limit.expired():
            raise
        raise ServerUnreachable(
            f"{events.server} started no session within {seconds:g} seconds."
        ) from None
    except BaseException:  # also when cancelled: a client left half-way would keep trying
        await _give_up(client)
        raise
    finally:
        events.close()


async def logout(client: ClientXMPP, *, timeout: float = 2) -> None:  # noqa: ASYNC109  a promise
    """Close the stream when all earlier stanzas are sent, or after `timeout` seconds."""
    lost = client.disconnected
    if client.is_connected():
        await client.disconnect(wait=timeout)
    if client.is_connected():  # the server did not close its side, and slixmpp has just given up
        await lost
    _end_sender(client)


async def _give_up(client: ClientXMPP) -> None:
    client.cancel_connection_attempt()
    if client.is_connected():
        lost = client.disconnected
        client.abort()
        await lost
    _end_sender(client)


def _end_sender(client: ClientXMPP) -> None:
    """End the sending task; slixmpp leaves it to the garbage collector, and starts a new one."""
    sender = client._run_out_filters  # noqa: SLF001 - there is no public way
    if sender is not None:
        sender.cancel()
        client._run_out_filters = None  # noqa: SLF001 - or the next connection would rely on it


class _LoginEvents:
    """Turns each event between connecting and the session into a result."""

    def __init__(self, client: ClientXMPP) -> None:
        self.client = client
        self.verdict: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.server = _server_name(client)
        self.unreachable: object = None
        self.heard = False
        self.refusal: str | None = None
        self.handlers: dict[str, Callable[[Any], None]] = {
            "session_start": self._let_in,
            "connection_failed": self._note_unreachable,
            "reconnect_delay": self._not_reached,
            "ssl_invalid_chain": self._not_trusted,
            "failed_auth": self._note_refusal,
            "failed_all_auth": self._refused,
            "stream_error": self._stream_error,
            "disconnected": self._closed,
        }
        self.readers = [
            Callback(f"login {name}", MatchXPath(name), read, instream=True)
            for name, read in (
                ("{http://etherx.jabber.org/streams}features", self._judge_features),
                (f"{{{tls_faults.TLS}}}failure", self._no_tls_begun),
            )
        ]

    def open(self) -> None:
        for event, handler in self.handlers.items():
            self.client.add_event_handler(event, handler)
        for reader in self.readers:
            self.client.register_handler(reader)

    def close(self) -> None:
        for event, handler in self.handlers.items():
            self.client.del_event_handler(event, handler)
        for reader in self.readers:
            self.client.remove_handler(reader.name)
        if self.verdict.done() and not self.verdict.cancelled():
            self.verdict.exception()  # retrieved, even if a timeout came first

    def _let_in(self, _: object) -> None:
        if not self.verdict.done():
            self.verdict.set_result(None)

    def _fail(self, sentence: str, kind: type[LoginFailed] = LoginFailed) -> None:
        if not self.verdict.done():
            self.verdict.set_exception(kind(sentence))

    def _note_unreachable(self, reason: object) -> None:
        self.unreachable = reason
        if isinstance(reason, ssl.SSLError):
            self._not_trusted(reason)

    def _not_reached(self, _: object) -> None:
        """Each address has been tried once, and slixmpp is about to start again."""
        why = str(self.unreachable) or "it closes the connection during the handshake"
        self._fail(f"{self.server} cannot be reached: {why}.", ServerUnreachable)

    def _not_trusted(self, error: ssl.SSLError) -> None:
        domain = str(self.client.requested_jid.domain)
        trust = Trust(domain, None)
        if isinstance(self.client, Client):
            trust = Trust(domain, self.client.ca_file, self.client.ca_setting)
        why = tls_faults.of_handshake(error, trust, _NO_DIRECT_TLS)
        self._fail(f"TLS with {self.server} failed: {why}")

    def _judge_features(self, features: StanzaBase) -> None:
        """Refuse a server that will never let this client in: slixmpp would wait for more."""
        self.heard = True
        if self.client.authenticated or isinstance(
            self.client.socket, ssl.SSLObject | ssl.SSLSocket
        ):
            return
        host, _ = self.client.custom_address or ("", 0)
        fault = tls_faults.of_features(
            features.xml,
            self.server,
            str(self.client.requested_jid.domain),
            wants_tls=self.client.enable_starttls,
            on_this_machine=_is_loopback(host),
        )
        if fault is not None:
            self._fail(fault)

    def _no_tls_begun(self, _: object) -> None:
        """Read the failure of RFC 6120 5.4.2.2."""
        self._fail(f"{self.server} offers TLS but cannot begin it; its log has the reason.")

    def _note_refusal(self, failure: StanzaBase) -> None:
        self.refusal = failure["condition"]

    def _refused(self, _: object) -> None:
        who, where = self.client.requested_jid.bare, self.server
        if self.refusal is None:
            sentence = f"{where} offers no way to log in with a password."
        elif self.refusal == "not-authorized":
            sentence = f"{where} refused {who}: wrong name or password."
        else:
            sentence = f"{where} refused {who}: {self.refusal}."
        # RFC 6120 6.5.11: with this one the server asks to try again later
        passing = self.refusal == "temporary-auth-failure"
        self._fail(sentence, ServerUnreachable if passing else LoginRefused)

    def _stream_error(self, error: StanzaBase) -> None:
        condition = error["condition"]
        kind = ServerUnreachable if condition in PASSING else LoginFailed
        self._fail(f"{self.server} ended the stream: {condition}.", kind)

    def _closed(self, reason: object) -> None:
        if isinstance(reason, ssl.SSLError):
            self._not_trusted(reason)
        sentence = f"{self.server} closed the connection before the session started"
        if self.heard or self.client.enable_direct_tls:
            self._fail(f"{sentence} ({reason}).", ServerUnreachable)
        self._fail(f"{sentence}. {_PERHAPS_DIRECT}", ServerUnreachable)


def _account(jid: str) -> JID:
    try:
        account = JID(jid)
    except InvalidJID:
        raise ValueError(f"{jid!r} is not a JID.") from None
    if not account.local:
        raise ValueError(f"{jid!r} names no account: a JID like bot@example.org is needed.")
    return account


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trust(ca_file: str | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    if not Path(ca_file).is_file():
        raise ValueError(f"The certificate file {ca_file} does not exist.")
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"The certificate file {ca_file} cannot be used: {error}.") from error


def _server_name(client: ClientXMPP) -> str:
    domain = str(client.requested_jid.domain)
    if client.custom_address is None:
        return domain
    host, port = client.custom_address
    return f"{domain} at {host}:{port}"
