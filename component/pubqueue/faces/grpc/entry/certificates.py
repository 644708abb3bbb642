"""The subject of a client certificate that gRPC has verified, which it hands over as PEM. Pure.

Python's `ssl` reads the certificates of its own handshakes only, and gRPC has handshakes of its own. Of the DER structure (X.509,
RFC 5280) only the path to the subject is read.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Subject = tuple[tuple[tuple[str, str], ...], ...]
"""As `subject` of `ssl.SSLSocket.getpeercert`."""

_NAMES: Final[Mapping[str, str]] = {
    "2.5.4.3": "commonName",
    "2.5.4.4": "surname",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "countryName",
    "2.5.4.7": "localityName",
    "2.5.4.8": "stateOrProvinceName",
    "2.5.4.9": "streetAddress",
    "2.5.4.10": "organizationName",
    "2.5.4.11": "organizationalUnitName",
    "2.5.4.42": "givenName",
    "1.2.840.113549.1.9.1": "emailAddress",
    "0.9.2342.19200300.100.1.1": "userId",
    "0.9.2342.19200300.100.1.25": "domainComponent",
}
"""Object identifiers, and the long names that `ssl` has for them; others stay numbers."""

_BMP, _LATIN = 30, 20
_CODECS: Final[Mapping[int, str]] = {_BMP: "utf-16-be", _LATIN: "latin-1"}
"""Of the types of strings; all others are UTF-8, or a part of it."""

_VERSION: Final = 0xA0
_BEFORE_SUBJECT: Final = 4
"""Serial number, algorithm, issuer and validity precede the subject."""
_LONG: Final = 0x80
_DIGIT: Final = 0x7F
_SECOND_ARC: Final = 40


def subject_of(pem: bytes) -> Subject:
    """Return the subject of a certificate; an empty one, which no user has, if it cannot be read."""
    try:
        return tuple(_subject(ssl.PEM_cert_to_DER_cert(pem.decode("ascii").strip())))
    except (ValueError, IndexError):
        return ()


def _subject(der: bytes) -> Iterator[tuple[tuple[str, str], ...]]:
    ((_, certificate),) = _elements(der)
    (_, signed), *_ = _elements(certificate)
    fields = [element for element in _elements(signed) if element[0] != _VERSION]
    for _, part in _elements(fields[_BEFORE_SUBJECT][1]):
        yield tuple(_attribute(pair) for _, pair in _elements(part))


def _attribute(pair: bytes) -> tuple[str, str]:
    (_, oid), (kind, value) = _elements(pair)
    name = _dotted(oid)
    return _NAMES.get(name, name), value.decode(_CODECS.get(kind, "utf-8"))


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length & _LONG:
            size = length & _DIGIT
            length, at = int.from_bytes(data[at : at + size]), at + size
        if at + length > len(data):
            raise ValueError("an element is cut off")
        yield tag, data[at : at + length]
        at += length


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & _DIGIT
        if not byte & _LONG:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // _SECOND_ARC, 2)
    return ".".join(map(str, (first, numbers[0] - first * _SECOND_ARC, *numbers[1:])))
