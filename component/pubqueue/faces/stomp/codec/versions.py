"""The versions of STOMP: a table of their differences, so that no code checks for a version by its name."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Version(Struct, frozen=True, eq=False):
    """The form of frames in a version."""

    name: str
    """Its name in `accept-version` and `version`."""
    has_crlf: bool
    """Whether a line may end with CR LF; otherwise a CR is an ordinary character."""
    escapes: Mapping[str, str]
    """The escapes for characters of headers that would end a line or a name. Empty: they cannot be written."""
    is_padded: bool
    """Whether spaces around a header's value are not a part of it."""
    modes: frozenset[str]
    """Values of the header `ack` of SUBSCRIBE."""


_V11_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
_V12_ESCAPES: Final = {**_V11_ESCAPES, "\r": "\\r"}
_MODES: Final = frozenset({"auto", "client", "client-individual"})

# fmt: off
# The text of 1.0 pads the headers of its examples ("login: <username>"); 1.1 and 1.2 say that nobody may.
V10: Final = Version("1.0", has_crlf=False, escapes=MappingProxyType({}),           is_padded=True,  modes=_MODES - {"client-individual"})
V11: Final = Version("1.1", has_crlf=False, escapes=MappingProxyType(_V11_ESCAPES), is_padded=False, modes=_MODES)
V12: Final = Version("1.2", has_crlf=True,  escapes=MappingProxyType(_V12_ESCAPES), is_padded=False, modes=_MODES)
# fmt: on

VERSIONS: Final[Mapping[str, Version]] = MappingProxyType(
    {version.name: version for version in (V10, V11, V12)}
)
"""All versions by their names, the oldest first."""

UNAGREED: Final = Version(
    "", has_crlf=True, escapes=MappingProxyType({}), is_padded=False, modes=frozenset()
)
"""The form of CONNECT and CONNECTED in every version: without escapes (1.2, "Value Encoding"), and with either line end."""

_NAMES: Final = re.compile(r"[ ]*,[ ]*")


def best_of(accepted: str | None, offered: Iterable[Version]) -> Version | None:
    """Return the highest version that both sides have, of the header `accept-version` and of ours; None if there is none.

    Without the header the client has 1.0 alone (1.2, "Protocol Negotiation").
    """
    names = {V10.name} if accepted is None else set(_NAMES.split(accepted.strip(" ")))
    common = [version for version in offered if version.name in names]
    return max(common, key=lambda version: version.name, default=None)
