"""Filters of the items that feed a queue: a small language over the headers of an item.

    headers:kind                              the item has a header of that name
    headers.kind = "order"                    a header of that name has this value
    headers.kind != "order"                   no header of that name has this value
    headers.kind IN ("order", "invoice")      a header of that name has one of these values
    hasPrefix(headers.kind, "ord")            a header of that name begins with this
    NOT ... , -... , ... AND ... , ... OR ...  brackets are needed to combine AND and OR

`attributes` means the same as `headers`. A name is letters, digits, `_` and `-`, or any text in double quotes. In quotes, a
backslash escapes a quote or a backslash. A header may occur several times in an item.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.model.entities import Headers

    Index = Mapping[str, Sequence[str]]


MAX_LENGTH: Final = 1_024
"""The maximum characters of a filter."""

MAX_DEPTH: Final = 20
"""The maximum nesting of brackets and NOTs."""

_TOKEN: Final = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\["\\])*")|(?P<word>[^\W\d][\w-]*)|(?P<mark>!=|[=().,:-]))'
)
_ROOTS: Final = frozenset({"headers", "attributes"})


class FilterError(ValueError):
    """A text that is not a filter; `at` is the position of the first character that does not fit, from 1."""

    def __init__(self, at: int, expected: str) -> None:
        super().__init__(f"at character {at}: {expected}")
        self.at = at


class Has(Struct, frozen=True, gc=False):
    """The item has a header of that name."""

    name: str


class Is(Struct, frozen=True, gc=False):
    """A header of that name has one of these values."""

    name: str
    values: frozenset[str]


class Begins(Struct, frozen=True, gc=False):
    """A header of that name begins with this."""

    name: str
    prefix: str


class Not(Struct, frozen=True):
    """The part is not true."""

    one: Filter


class All(Struct, frozen=True):
    """All parts are true."""

    each: tuple[Filter, ...]


class Any(Struct, frozen=True):
    """At least one part is true."""

    each: tuple[Filter, ...]


Filter = Has | Is | Begins | Not | All | Any


def indexed(headers: Headers) -> Index:
    """Return the values of an item's headers by their names."""
    index: dict[str, list[str]] = {}
    for name, value in headers:
        index.setdefault(name, []).append(value)
    return index


def admits(text: str, headers: Index) -> bool:
    """Return whether the filter admits an item with these headers; an empty one admits all."""
    return not text or agrees(parsed(text), headers)


def agrees(wanted: Filter, headers: Index) -> bool:
    """Return whether a filter is true of these headers."""
    match wanted:
        case Has(name):
            return name in headers
        case Is(name, values):
            return any(value in values for value in headers.get(name, ()))
        case Begins(name, prefix):
            return any(value.startswith(prefix) for value in headers.get(name, ()))
        case Not(one):
            return not agrees(one, headers)
        case All(each):
            return all(agrees(one, headers) for one in each)
        case Any(each):
            return any(agrees(one, headers) for one in each)


@lru_cache(maxsize=1024)
def parsed(text: str) -> Filter:
    """Read a filter.

    Raises:
        FilterError: the text is not a filter.

    """
    if len(text) > MAX_LENGTH:
        raise FilterError(MAX_LENGTH + 1, f"a filter has at most {MAX_LENGTH} characters")
    reader = _Reader(text)
    found = reader.expression(0)
    reader.end()
    return found


class _Reader:
    """Reads a filter from left to right; `_kind` and `_text` are the next token, at `_at`."""

    def __init__(self, text: str) -> None:
        self._source = text
        self._behind = 0
        self._kind: str | None = ""
        self._text = ""
        self._at = 0
        self._step()

    def expression(self, depth: int) -> Filter:
        """Read terms that are joined by one of AND and OR."""
        each = [self._term(depth)]
        joint = self._text if self._is_word("AND", "OR") else ""
        while joint and self._is_word(joint):
            self._step()
            each.append(self._term(depth))
        if self._is_word("AND", "OR"):
            raise self._error("brackets are needed where AND meets OR")
        if len(each) == 1:
            return each[0]
        return All(tuple(each)) if joint == "AND" else Any(tuple(each))

    def end(self) -> None:
        """Raise FilterError unless the end is reached."""
        if self._kind is not None:
            raise self._error("AND, OR or the end is expected")

    def _term(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise self._error(f"brackets and NOTs are at most {MAX_DEPTH} within each other")
        if self._is_word("NOT") or self._is_mark("-"):
            self._step()
            return Not(self._term(depth + 1))
        if self._is_mark("("):
            self._step()
            found = self.expression(depth + 1)
            self._take(")")
            return found
        return self._prefix() if self._is_word("hasPrefix") else self._comparison()

    def _prefix(self) -> Filter:
        self._step()
        self._take("(")
        self._root()
        self._take(".")
        name = self._name()
        self._take(",")
        prefix = self._value()
        self._take(")")
        return Begins(name, prefix)

    def _comparison(self) -> Filter:
        self._root()
        if self._is_mark(":"):
            self._step()
            return Has(self._name())
        self._take(".", 'a "." or ":" is expected')
        name = self._name()
        if self._is_word("IN"):
            self._step()
            return Is(name, self._values())
        unequal = self._is_mark("!=")
        if not unequal and not self._is_mark("="):
            raise self._error("=, != or IN is expected")
        self._step()
        found = Is(name, frozenset({self._value()}))
        return Not(found) if unequal else found

    def _values(self) -> frozenset[str]:
        self._take("(")
        values = {self._value()}
        while self._is_mark(","):
            self._step()
            values.add(self._value())
        self._take(")")
        return frozenset(values)

    def _root(self) -> None:
        if not self._is_word(*_ROOTS):
            raise self._error("headers, hasPrefix, NOT or a bracket is expected")
        self._step()

    def _name(self) -> str:
        if self._kind == "text":
            return self._value()
        if self._kind != "word":
            raise self._error("the name of a header is expected")
        name = self._text
        self._step()
        return name

    def _value(self) -> str:
        if self._kind != "text":
            raise self._error("a text in double quotes is expected")
        value = re.sub(r"\\(.)", r"\1", self._text[1:-1])
        self._step()
        return value

    def _take(self, mark: str, expected: str = "") -> None:
        if not self._is_mark(mark):
            raise self._error(expected or f'"{mark}" is expected')
        self._step()

    def _is_word(self, *words: str) -> bool:
        return self._kind == "word" and self._text in words

    def _is_mark(self, mark: str) -> bool:
        return self._kind == "mark" and self._text == mark

    def _step(self) -> None:
        """Go to the next token: a word, a text or a mark; at the end there is none."""
        rest = self._source[self._behind :]
        self._at = self._behind + len(rest) - len(rest.lstrip())
        if not rest.strip():
            self._kind, self._text = None, ""
            return
        found = _TOKEN.match(self._source, self._behind)
        if found is None:
            raise self._error("this character does not belong into a filter")
        self._kind = found.lastgroup
        self._text = found[self._kind or 0]
        self._behind = found.end()

    def _error(self, expected: str) -> FilterError:
        return FilterError(self._at + 1, expected)
