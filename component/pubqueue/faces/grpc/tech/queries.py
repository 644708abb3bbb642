"""The query language of `tech.pubsub`. Pure.

Its definition was never published; the form `KEY in (A, B)` is all that is known of it. Here a query is

    KEY = "v"    KEY != "v"    KEY in (a, "b")    NOT ...    ... AND ...    ... OR ...    and brackets

over the labels of a message. A value needs quotes only if it has white space, quotes, commas, brackets or signs. It is stored as a filter of
the queue (`core.publishing.filters`), in whose words it means the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from msgspec import Struct

from pubqueue.faces.grpc.wire.names import ResourceKind, is_project, of_tech
from pubqueue.faces.grpc.wire.statuses import invalid
from pubqueue.rules import filters

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\["\\])*"|!=|[=(),]|[^\s"=!(),]+)')
_WORDS: Final = frozenset({"AND", "OR", "NOT"})
_PLAIN: Final = re.compile(r'[^\s"=!(),]+')

PROJECT: Final = "cloud.googleapis.com/project"
TOPIC: Final = "pubsub.googleapis.com/topic"
_LISTED: Final = re.compile(
    rf"\s*(?P<key>{re.escape(PROJECT)}|{re.escape(TOPIC)})\s+in\s+\(\s*(?P<value>[^\s(),]+)\s*\)\s*"
)


class Listed(Struct, frozen=True):
    """The request of a list; None: all."""

    project: str | None = None
    topic: str | None = None


def listed(query: str) -> Listed:
    """Return the request in the query of a list.

    Raises:
        CallError: it asks for anything but a project and a topic.

    """
    found: dict[str, str] = {}
    for part in filter(None, re.split(r"\sAND\s", query)) if query.strip() else ():
        match = _LISTED.fullmatch(part)
        if match is None or match["key"] in found:
            refuse(query)
        found[match["key"]] = match["value"]
    project = found.get(PROJECT)
    if project is not None:
        project = project.removeprefix("/projects/").removeprefix("projects/")
        if not is_project(project):
            refuse(query)
    topic = found.get(TOPIC)
    return Listed(project, None if topic is None else of_tech(topic, ResourceKind.TOPIC))


def refuse(query: str) -> NoReturn:
    """Refuse the query of a list."""
    raise invalid(
        f"query: {query[:200]!a} is not supported; a list is of {PROJECT} in (/projects/PROJECT), and one of subscriptions of"
        f" {TOPIC} in (/topics/PROJECT/TOPIC)"
    )


def filter_of(query: str) -> str:
    """Return the filter that means the same as a query over labels.

    Raises:
        CallError: the query cannot be read.

    """
    if not query.strip():
        return ""
    if len(query) > filters.MAX_LENGTH:
        raise invalid(f"query has more than {filters.MAX_LENGTH} characters")
    text = " ".join(_translated(list(_tokens(query))))
    try:
        filters.parsed(text)
    except filters.FilterError:
        raise invalid(
            f'query: {query[:200]!a} cannot be read; the form is KEY in (A, "B"), KEY = A and KEY != A, with AND, OR, NOT and brackets'
        ) from None
    return text


def query_of(text: str) -> str:
    """Return the query that means the same as a filter; a filter that no query can express is returned unchanged."""
    try:
        return _shown(filters.parsed(text), outer=True) if text else ""
    except (filters.FilterError, KeyError):
        return text


def _tokens(query: str) -> Iterator[str]:
    at, end = 0, len(query.rstrip())
    while at < end:
        found = _TOKEN.match(query, at)
        if found is None:
            raise invalid(f"query: character {at + 1} does not belong into a query")
        yield found[1]
        at = found.end()


def _translated(tokens: list[str]) -> Iterator[str]:
    """Yield the words of the filter: a key precedes a sign or `in`, and all other words are values."""
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token in {"(", ")", ",", "=", "!="} or token in _WORDS:
            yield token
        elif following in {"=", "!="} or following.lower() == "in":
            yield f"attributes.{_quoted(token)}"
        elif token.lower() == "in" and following == "(":
            yield "IN"
        else:
            yield _quoted(token)


def _quoted(token: str) -> str:
    if token.startswith('"'):
        return token
    escaped = token.replace("\\", "\\\\")
    return f'"{escaped}"'


def _value(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in _WORDS and text.lower() != "in":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _shown(tree: filters.Filter, *, outer: bool = False) -> str:
    match tree:
        case filters.Is(name, values) if len(values) == 1:
            return f"{_value(name)} = {_value(next(iter(values)))}"
        case filters.Is(name, values):
            return f"{_value(name)} in ({', '.join(map(_value, sorted(values)))})"
        case filters.Not(filters.Is(name, values)) if len(values) == 1:
            return f"{_value(name)} != {_value(next(iter(values)))}"
        case filters.Not(one):
            return f"NOT {_shown(one)}"
        case filters.All(each) | filters.Any(each):
            joint = " AND " if isinstance(tree, filters.All) else " OR "
            text = joint.join(_shown(one) for one in each)
            return text if outer else f"({text})"
        case _:
            raise KeyError(tree)
