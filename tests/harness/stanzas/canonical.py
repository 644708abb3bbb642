"""Compares a stanza with what a document says it should be.

Namespaces count and prefixes do not; the order of children counts and that of attributes does not;
whitespace between elements is layout unless `xml:space='preserve'` is in force. The expected side
may hold placeholders, in attributes and text:

    {any}     some value            {any?}    some value, or no such attribute
    {time}    a UTC time (XEP-0082) {name}    the value known by that name, or gives it that name

and instructions, as the first child of an element:

    <?any-order?>   these children, in any order
    <?more?>        these children, in any order, and perhaps others

A stanza error may carry a human-readable `text` that was not requested (RFC 6120 8.3.2).
"""

from __future__ import annotations

import difflib
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lxml.etree import _Element

Names = dict[str, str]

PLACEHOLDER: Final = re.compile(r"\{([a-z][\w.-]*\??)\}")
TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
PATTERNS: Final = {"any": ".+", "any?": ".+", "time": TIME}
SPACE: Final = "{http://www.w3.org/XML/1998/namespace}space"
ERROR_TEXT: Final = "{urn:ietf:params:xml:ns:xmpp-stanzas}text"


def difference(expected: _Element, actual: _Element, names: Names) -> str:
    """Return "" if `actual` is as `expected`, else a diff to read; learn new names into `names`."""
    trial = dict(names)
    left, right = _both(expected, actual, trial)
    if left == right:
        names.update(trial)
        return ""
    return "\n".join(line for line in difflib.ndiff(left, right) if line[0] != "?")


def _both(expected: _Element, actual: _Element, names: Names) -> tuple[list[str], list[str]]:
    """Return the lines of both; the open parts of `expected` are filled where `actual` fits."""
    wanted, got = deepcopy(expected), deepcopy(actual)
    _fill(wanted, got, names)
    return lines(wanted), lines(got)


def substitute(text: str, names: Names) -> str:
    """Replace the names by their known values; an unknown name is an error."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in names:
            message = f"{found[0]} has no value yet"
            raise KeyError(message)
        return escape(names[found[1]], {"'": "&apos;", '"': "&quot;"})

    return PLACEHOLDER.sub(value, text)


def lines(element: _Element) -> list[str]:
    """Write the element canonically, one tag or text a line."""
    return list(_lines(element, None, 0, layout=True))


def _lines(node: _Element, around: str | None, depth: int, *, layout: bool) -> Iterator[str]:
    indent = "  " * depth
    if not isinstance(node.tag, str):
        yield f"{indent}<?{node.target}?>"
        return
    space, name = _split(node.tag)
    layout = _layout(node, layout)
    attributes = sorted((_written(key), value) for key, value in node.attrib.items())
    if space != around:
        attributes.insert(0, ("xmlns", space))
    inside = "".join(f" {key}={quoteattr(value)}" for key, value in attributes)
    text, children = _text(node.text, layout), list(node)
    if not text and not children:
        yield f"{indent}<{name}{inside}/>"
    elif not children:
        yield f"{indent}<{name}{inside}>{escape(text)}</{name}>"
    else:
        yield f"{indent}<{name}{inside}>{escape(text)}"
        for child in children:
            yield from _lines(child, space, depth + 1, layout=layout)
            if tail := _text(child.tail, layout):
                yield f"{indent}  {escape(tail)}"
        yield f"{indent}</{name}>"


def _text(text: str | None, layout: bool) -> str:  # noqa: FBT001 - private
    return "" if text is None or (layout and not text.strip()) else text


def _layout(node: _Element, inherited: bool) -> bool:  # noqa: FBT001 - private
    return node.get(SPACE) != "preserve" if SPACE in node.attrib else inherited


def _split(tag: str) -> tuple[str, str]:
    space, _, name = tag.rpartition("}")
    return space.lstrip("{"), name


def _written(key: str) -> str:
    return key.replace("{http://www.w3.org/XML/1998/namespace}", "xml:")


def _fill(wanted: _Element, got: _Element, names: Names) -> None:
    """Replace the open parts of `wanted` by those of `got`, as far as it fits."""
    for key, value in list(wanted.attrib.items()):
        if value == "{any?}" and key not in got.attrib:
            del wanted.attrib[key]
        else:
            wanted.set(key, _resolved(value, got.get(key), names))
    rule = _instruction(wanted)
    wanted.text = _resolved(wanted.text, got.text, names)
    _forgive_error_text(wanted, got)
    if rule:
        _arrange(wanted, got, names, drop=rule == "more")
    for mine, theirs in zip(wanted, got, strict=False):
        if mine.tag == theirs.tag and isinstance(mine.tag, str):
            _fill(mine, theirs, names)
        mine.tail = _resolved(mine.tail, theirs.tail, names)


def _resolved(value: str | None, actual: str | None, names: Names) -> str | None:
    if not value or not PLACEHOLDER.search(value):
        return value
    pattern, fresh = "", []
    for n, piece in enumerate(PLACEHOLDER.split(value)):
        if n % 2 == 0:
            pattern += re.escape(piece)
        elif piece in names:
            pattern += re.escape(names[piece])
        else:
            pattern += f"({PATTERNS.get(piece, '.+')})"
            fresh.append(piece)
    found = re.fullmatch(pattern, actual or "", re.DOTALL)
    if not found:
        return PLACEHOLDER.sub(lambda it: names.get(it[1], it[0]), value)
    names.update({k: v for k, v in zip(fresh, found.groups(), strict=True) if k not in PATTERNS})
    return actual


def _instruction(wanted: _Element) -> str | None:
    for node in wanted:
        if not isinstance(node.tag, str):
            wanted.text, target = (wanted.text or "") + (node.tail or ""), node.target
            wanted.remove(node)
            assert target in {"any-order", "more"}, f"unknown instruction <?{target}?>"
            return target
    return None


def _forgive_error_text(wanted: _Element, got: _Element) -> None:
    if _split(wanted.tag)[1] == "error" and wanted.find(ERROR_TEXT) is None:
        for text in got.findall(ERROR_TEXT):
            got.remove(text)


def _arrange(wanted: _Element, got: _Element, names: Names, *, drop: bool) -> None:
    """Bring the children of `got` into the order of `wanted`; those without a partner last."""
    rest = list(got)
    ordered = []
    for mine in wanted:
        partner = next((it for it in rest if _fits(mine, it, dict(names))), None)
        if partner is None:
            partner = next((it for it in rest if _akin(mine, it)), None)
        if partner is not None:
            rest.remove(partner)
            ordered.append(partner)
    got[:] = ordered + ([] if drop else rest)


def _fits(mine: _Element, theirs: _Element, names: Names) -> bool:
    """Return whether there is no difference, without writing one: of many children in any order most do not fit."""
    if mine.tag != theirs.tag:
        return False
    left, right = _both(mine, theirs, names)
    return left == right


def _akin(mine: _Element, theirs: _Element) -> bool:
    """Return whether the two are meant to be the same, so that the diff shows them side by side."""
    return mine.tag == theirs.tag and mine.get("var") == theirs.get("var")
