"""Reads the subject and the dates of a certificate.

Python's `ssl` reads only certificates from a handshake. So a handshake takes place in memory, with a client that trusts only this
certificate and ignores the time. It also proves that the key belongs to it and that a server can use them.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which `ssl` has no name."""

_ROUNDS: Final = 4
"""Maximum rounds of the handshake; TLS 1.3 needs two from each side."""

_NAMES: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""Attribute types and their names in the text of a subject (RFC 4514, section 3)."""


class Certificate(Struct, frozen=True):
    """The subject as text (RFC 4514), and the times from which and until which it is valid, in seconds since 1970."""

    subject: str
    begins: float
    ends: float


def read_certificate(certificate: str, key: str) -> Certificate:
    """Return the subject and the dates of the first certificate of a PEM file.

    Raises:
        ssl.SSLError, OSError: certificate and key cannot be used.

    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key, password="")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False  # the handshake has no host name
    client.load_verify_locations(cafile=certificate)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    found = _shake_hands(client, server)
    return Certificate(
        subject_of(found),
        ssl.cert_time_to_seconds(str(found["notBefore"])),
        ssl.cert_time_to_seconds(str(found["notAfter"])),
    )


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> Mapping[str, Any]:
    """Return the server's certificate, as the client received it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_ROUNDS):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0].getpeercert() or {}


def subject_of(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate as `getpeercert` gives it, as text: `CN=etl,O=example` (RFC 4514)."""
    parts = certificate.get("subject", ())
    return ",".join(
        "+".join(f"{_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    """Return the value, escaped by RFC 4514, section 2.4."""
    text = "".join(f"\\{one}" if one in '"+,;<>\\' else one for one in value).replace("\0", "\\00")
    if text.startswith((" ", "#")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text
