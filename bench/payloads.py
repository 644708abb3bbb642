"""Measures the cost of wrapping and unwrapping a payload: `.venv/bin/python -m bench.payloads`.

It takes the best of many short runs, because other programs make runs longer and never shorter.
"""

from __future__ import annotations

from timeit import repeat
from typing import Final

from rich.console import Console
from rich.table import Table

from pubqueue_xeps.wire.payloads.wrapper import unwrap, wrap

RUNS: Final = 200
TIMES: Final = 1_000

SIZE: Final = 200
JSON: Final = b'{"id":12345,"name":"LH 400","seats":[12,14],"window":true,"note":"%b"}'
XML: Final = (
    b"<flight xmlns='urn:example:flight' number='LH 400'><seat>12</seat><note>%b</note></flight>"
)
TEXT: Final = b"LH 400;12;14;%b"

BODIES: Final = (
    ("application/json", JSON),
    ("application/xml", XML),
    ("text/csv", TEXT),
    ("application/octet-stream", TEXT),
)


def filled(form: bytes) -> bytes:
    """Return a body of `SIZE` bytes."""
    return form % (b"x" * (SIZE - len(form % b"")))


def microseconds(type_: str, body: bytes) -> tuple[float, float]:
    """Return the time for wrapping a body, and for unwrapping it."""
    stored = wrap(body, type_)
    assert unwrap(stored.xml, stored.header).data == body
    known = {"wrap": wrap, "unwrap": unwrap, "body": body, "type_": type_, "stored": stored}
    steps = "wrap(body, type_)", "unwrap(stored.xml, stored.header)"
    best = [min(repeat(step, number=TIMES, repeat=RUNS, globals=known)) for step in steps]
    return best[0] / TIMES * 1e6, best[1] / TIMES * 1e6


def main() -> None:
    """Measure and print the table."""
    table = Table(title=f"payloads of {SIZE} bytes, microseconds")
    for column in ("type", "wrap", "unwrap", "together"):
        table.add_column(column, justify="left" if column == "type" else "right")
    for type_, form in BODIES:
        into, out = microseconds(type_, filled(form))
        table.add_row(type_, f"{into:.2f}", f"{out:.2f}", f"{into + out:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
