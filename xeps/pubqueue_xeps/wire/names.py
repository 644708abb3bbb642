"""Names of nodes, items, groups, headers and the like: which texts can be one, and names that are made of several names.

Every protocol, the library and Spark ask here, so that a name that one of them takes is a name for all. A name is carried as it is: nothing
is trimmed, and no form of Unicode is made another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LAST_OF_PLANES: Final = "".join(
    f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17)
)

NOT_IN_NAMES: Final = re.compile(
    f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef{_LAST_OF_PLANES}]"
)
"""The characters that no name has: controls (Cc), which XMPP servers change or refuse, line and paragraph separators, halves of surrogate
pairs (Cs), and the noncharacters. They are code points, so it is the same with every version of Unicode."""


# XML 1.0 section 2.2, production Char. A lone surrogate is not a character.
ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot carry; the server ends the stream if there is one."""

CHANGED: Final = re.compile(f"\r|{ILLEGAL.pattern}")
"""Those, and the carriage return: a server may write it as it is, and then it is read as a line feed."""

NO_NAME: Final = "which no name has"


class BadCharacterError(ValueError):
    """A text that is not sent, because it would not arrive as it is: `what` it is, the `character`, its `position`, and `why`."""

    def __init__(self, what: str, character: str, position: int, why: str) -> None:
        super().__init__(what, character, position, why)
        self.what = what
        self.character = character
        self.position = position
        self.why = why

    def __str__(self) -> str:
        """Return the sentence."""
        where = f"U+{ord(self.character):04X} at position {self.position}"
        return f"{self.what} has the character {where}, {self.why}".lstrip()


def is_clean(text: str) -> bool:
    """Return whether every character of a text can be in a name."""
    return NOT_IN_NAMES.search(text) is None


def checked(text: str, what: str) -> str:
    """Return a name; raise BadCharacterError if it has a character that no name has."""
    return without(NOT_IN_NAMES, text, what, NO_NAME)


def without(characters: re.Pattern[str], text: str, what: str, why: str) -> str:
    """Return a text; raise BadCharacterError for the first of these characters in it."""
    if (bad := characters.search(text)) is not None:
        raise BadCharacterError(what, bad[0], bad.start(), why)
    return text


def joined(*names: str) -> str:
    """Return one name for several; no other names of the same number have it.

    There is a slash between two of them. In all but the last, a slash is `%2F` and a percent sign `%25`, so that names with neither
    stay as they are.
    """
    *before, last = names
    return "/".join([name.replace("%", "%25").replace("/", "%2F") for name in before] + [last])


def parted(text: str) -> tuple[str, str] | None:
    """Return the two names of which `joined` has made a text; None if it can have made it of none."""
    first, slash, last = text.partition("/")
    if not (slash and first and last):
        return None
    return first.replace("%2F", "/").replace("%25", "%"), last


PARENT: Final = "parent"
"""The header of a follow-up that names the item it came from, its node and its id, as `joined` writes it."""


NOT_CARRIED: Final = "not-carried"
"""The header of a delivery that names those that are left out of it, as `listed` has it."""

_NOT_IN_LISTS: Final = re.compile("[\x00-\x20%,:\\\\\x7f]")


def listed(names: Iterable[str]) -> str:
    """Return one text for several names; no other names have it.

    There is a comma between two of them. In each a comma is `%2C` and a percent sign `%25`; so are spaces, colons, backslashes and
    controls, which a header may not carry.
    """
    return ",".join(_NOT_IN_LISTS.sub(lambda found: f"%{ord(found[0]):02X}", one) for one in names)
