"""Strategies for XML as text: the various forms of one tree on the wire.

A serialiser writes an element in one way. Here the way is drawn too: which quotes, where a namespace is
declared, whether a character is written as itself, as an entity or in a CDATA section, and whether an
empty element closes itself.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

URIS: Final = ("urn:a", "urn:b:c", "http://example.org/ns?x=1&y='2'")
PREFIXES: Final = ("a", "b", "long-prefix")
NAMES: Final = ("x", "item", "entry", "Ü-1", "_y.z")
TEXT: Final = st.text(st.sampled_from("ab 1/><&'\"=\n\t\r]é€😀a:"), max_size=12)
ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;"}


@st.composite
def written(draw, text, *, raw):
    """Return the text escaped, each character in one of its possible ways."""
    out = []
    for char in text:
        ways = [f"&#{ord(char)};", f"&#x{ord(char):X};"]
        if char in ENTITIES:
            ways.append(ENTITIES[char])
        if raw(char):
            ways += [char] * 3
        out.append(draw(st.sampled_from(ways)))
    return "".join(out)


@st.composite
def value(draw):
    """Return an attribute's value, with its quotes."""
    quote = draw(st.sampled_from("'\""))
    text = draw(written(draw(TEXT), raw=lambda char: char not in f"&<{quote}\n\t\r"))
    return quote + text + quote


@st.composite
def content(draw):
    """Return character data."""
    text = draw(TEXT)
    way = draw(st.sampled_from(("text", "text", "cdata", "comment", "instruction")))
    if way == "text" or "]]" in text:
        return draw(written(text, raw=lambda char: char not in "&<>\r]"))
    if way == "cdata":
        return f"<![CDATA[{text.rstrip(']')}]]>"
    return "<!-- '/> \" -->" if way == "comment" else "<?pi '/> \" ?>"


@st.composite
def declarations(draw, scope):
    """Return namespace declarations as words of a tag; put them into `scope`."""
    words = []
    for prefix in draw(st.lists(st.sampled_from(("", *PREFIXES)), unique=True, max_size=2)):
        uri = draw(st.sampled_from(URIS if prefix else (*URIS, "")))
        scope[prefix] = uri
        quoted = uri.replace("&", "&amp;").replace("'", "&apos;")
        words.append(f"xmlns{':' if prefix else ''}{prefix}='{quoted}'")
    return words


@st.composite
def attributes(draw, scope):
    """Return attributes, none twice, whatever the prefix."""
    words, seen = [], set()
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
        prefix = draw(st.sampled_from(["", *(p for p in scope if p)]))
        expanded = (scope[prefix] if prefix else "", name)
        if expanded not in seen:
            seen.add(expanded)
            words.append(f"{prefix}{':' if prefix else ''}{name}={draw(value())}")
    return words


@st.composite
def element(draw, depth, scope=None):
    """Return an element of at most `depth` levels below itself."""
    scope = dict(scope or {"": "the stream's"})
    words = draw(declarations(scope))
    words += draw(attributes(scope))
    prefix = draw(st.sampled_from(sorted(scope)))
    name = f"{prefix}{':' if prefix else ''}{draw(st.sampled_from(NAMES))}"
    space = draw(st.sampled_from(("", " ", "\n\t")))
    start = name + "".join(f" {word}" for word in draw(st.permutations(words)))
    inner = [
        draw(element(depth - 1, scope)) for _ in range(draw(st.integers(0, 2)) if depth else 0)
    ]
    inner += draw(st.lists(content(), max_size=2))
    if not inner and draw(st.booleans()):
        return f"<{start}{space}/>"
    return f"<{start}{space}>{''.join(draw(st.permutations(inner)))}</{name}{space}>"
