"""`.venv/bin/python -m proof.fuzz.bodies`: wrap a million random bodies, and compare what comes out byte for byte."""

from __future__ import annotations

import sys
import time
from random import Random
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import click

from pubqueue.faces.xmpp.xml.payload import same, space_of
from pubqueue_xeps.wire.payloads.decoding import of_element
from pubqueue_xeps.wire.payloads.wrapper import Body, Wrapped, unwrap, wrap
from pubqueue_xeps.wire.xml_text import xml_text

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES: Final = (
    *(
        None,
        "",
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=latin-1",
    ),
    *(
        "application/xml",
        "text/xml",
        "image/svg+xml",
        "text/xml; charset=utf-16",
        "application/x+json",
    ),
    *(
        "text/plain",
        "text/csv; header=\"a  'b'\"",
        "text/a\u2003b",
        "application/x-www-form-urlencoded",
    ),
    *("application/octet-stream", "image/png", "text/plain; charset=ISO-8859-1", "<&>\"'"),
)
PIECES: Final = (
    *(
        b"<",
        b">",
        b"&",
        b"'",
        b'"',
        b"]]>",
        b"&amp;",
        b"&#13;",
        b"&#10;",
        b" c='&#9;'",
        b"&lt;",
        b"\r",
        b"\n",
        b"\t",
        b" ",
        b"\x00",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\xef\xbf\xbe",
        b"\xef\xbf\xbf",
        b"\xed\xa0\x80",
        b"\xff",
        b"\xc3\xa4",
        b"\x7f",
    ),
    *(
        b"\xf0\x9f\x90\x9d",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\x1b[2J",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"a":',
        b",",
    ),
    *(
        b"1",
        b"null",
        b'"\\ud800"',
        b"1e999",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"<?x?>",
        b"<!DOCTYPE a>",
    ),
    *(
        b"<a xmlns='urn:x'>",
        b"<p:a xmlns:p='urn:x'>",
        b"<p:b/>",
        b"<b/>",
        b"</a>",
        b"</p:a>",
        b"xmlns=''",
    ),
    *(
        b"<json xmlns='urn:xmpp:json:0'>",
        b"</json>",
        b"<data xmlns='urn:x-pubqueue:data:0'>",
        b"</data>",
    ),
    *(b"<text xmlns='urn:x-pubqueue:0'>", b"</text>", b" encoding='base64'", b"YQ==", b"job"),
)
WHOLE: Final = (
    *(
        b"",
        b"{}",
        b'{"a": [1, 2.5, "\\u0000", null]}',
        b"<a xmlns='urn:x'><b c='d'>e</b></a>",
        b"<a xmlns='urn:x'/>",
    ),
    *(b"<json xmlns='urn:xmpp:json:0'>1</json>", b"<p:a xmlns:p='urn:x'><b/></p:a>", b"a,b\n1,2\n"),
    *(
        b"<d:data xmlns:d='urn:x-pubqueue:data:0' encoding='base64'>YQ==</d:data>",
        bytes(range(256)),
    ),
)


class BodyError(AssertionError):
    """A body did not come out as it went in."""


def bodies(random: Random) -> Iterator[tuple[bytes, str | None, bool]]:
    """Yield bodies without end: whole ones, pieces that matter to XML and JSON, and any bytes; each with a type."""
    while True:
        shape = random.random()
        if shape < 0.2:
            body = random.choice(WHOLE)
        elif shape < 0.4:
            body = random.randbytes(random.randrange(40))
        else:
            body = b"".join(random.choices(PIECES, k=random.randrange(12)))
        if shape > 0.8:
            body = b"<a xmlns='urn:x'>%b</a>" % body
        yield body, random.choice(TYPES), random.random() < 0.5


def check(body: bytes, type: str | None, *, is_text: bool) -> Wrapped:  # noqa: A002 - its name everywhere
    """Wrap and unwrap a body as it is stored, and as it comes through a server; raises BodyError."""
    wrapped = wrap(body, type, is_text=is_text)
    out = unwrap(wrapped.xml, wrapped.header)
    if (out.data, out.type) != (body, type):
        raise BodyError(f"{body!r} of type {type!r} came out as {out!r}")
    if space_of(wrapped.xml) != wrapped.space:
        raise BodyError(f"{wrapped!r} is in another namespace")
    element = ET.fromstring(b"<item xmlns='urn:other'>%b</item>" % wrapped.xml)[0]
    _compare(out, of_element(element, wrapped.header), body)
    if out.form != "xml":
        _compare(out, unwrap(ET.tostring(element), wrapped.header), body)
    elif not same(xml_text(element).encode(), body):
        raise BodyError(f"{body!r} means something else within another element")
    return wrapped


def _compare(stored: Body, relayed: Body, body: bytes) -> None:
    fits = stored == relayed or (
        stored.form == relayed.form == "xml" and stored.type == relayed.type
    )
    if not fits:
        raise BodyError(
            f"{body!r} came out of a server as {relayed!r}, and out of the store as {stored!r}"
        )


@click.command(context_settings={"show_default": True})
@click.option("--bodies", "count", default=1_000_000, type=click.IntRange(1))
@click.option("--seed", default=1, help="The bodies follow from it.")
def main(*, count: int, seed: int) -> None:
    """Wrap random bodies; stop at the first that comes out otherwise than it went in."""
    begun = time.monotonic()
    forms: dict[str, int] = {}
    for number, (body, type_, is_text) in zip(range(count), bodies(Random(seed)), strict=False):
        try:
            wrapped = check(body, type_, is_text=is_text)
        except Exception as error:
            click.echo(f"body {number} of seed {seed}: {error}")
            sys.exit(1)
        forms[wrapped.space] = forms.get(wrapped.space, 0) + 1
    click.echo(f"{count:,} bodies, the same bytes out of each, in {time.monotonic() - begun:.0f} s")
    for space, times in sorted(forms.items()):
        click.echo(f"{times:>10,} in {space}")


if __name__ == "__main__":
    main()
