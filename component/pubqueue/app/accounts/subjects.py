"""Subjects of certificates: as they are written in the configuration, and as Python's ssl returns them.

Programs print the parts of a subject in either order (RFC 4514 in the reverse order of `openssl x509`), so the order does not
matter. All parts do: a subject with an additional part is another one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Subject = tuple[tuple[str, str], ...]
"""Pairs of a type, by its long name, and a value, sorted."""

LONG: Final = {
    "C": "countryName",
    "CN": "commonName",
    "DC": "domainComponent",
    "EMAILADDRESS": "emailAddress",
    "GN": "givenName",
    "L": "localityName",
    "O": "organizationName",
    "OU": "organizationalUnitName",
    "SERIALNUMBER": "serialNumber",
    "SN": "surname",
    "ST": "stateOrProvinceName",
    "STREET": "streetAddress",
    "UID": "userId",
}
"""Long names, which ssl uses, by the short names."""

_NAMES: Final = LONG | {name.upper(): name for name in LONG.values()}
_PART: Final = re.compile(r"\s*([A-Za-z]+|\d+(?:\.\d+)+)\s*=\s*((?:[^\\,+]|\\.)*)\s*([,+]|\Z)")
_ESCAPED: Final = re.compile(r"\\(.)")


def read(text: str) -> Subject:
    r"""Return a subject that is written as `CN=etl,O=example`; a comma in a value is written `\,`.

    Raises:
        ValueError: it is not a subject.

    """
    found: list[tuple[str, str]] = []
    at, more = 0, True
    while more:
        part = _PART.match(text, at)
        if part is None or not part[2].strip():
            raise ValueError(
                f"must be the subject of a certificate, such as CN=etl,O=example, not {text!r}"
            )
        kind = _NAMES.get(part[1].upper(), part[1])
        if kind.isalpha() and kind not in LONG.values():
            raise ValueError(
                f"has no known type {kind!r}: one of {', '.join(LONG)}, or numbers with dots"
            )
        found.append((kind, _ESCAPED.sub(r"\1", part[2].strip())))
        at, more = part.end(), bool(part[3])
    return tuple(sorted(found))


def subject_of(certificate: Iterable[Iterable[tuple[str, str]]]) -> Subject:
    """Return the subject of a certificate that ssl has verified."""
    return tuple(sorted(pair for parts in certificate for pair in parts))
