"""The words of the protocol: real stanzas out of the scenarios, and every name out of the schemas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.scenarios.scenario import Send, read
from harness.servers.stub_server import parse
from harness.stanzas.random_requests import SETTINGS, USUAL
from harness.stanzas.schema import SCHEMAS
from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator

XS: Final = "{http://www.w3.org/2001/XMLSchema}"
SCENARIOS: Final = Path(__file__).parents[2] / "tests" / "scenarios"
PLACE: Final = re.compile(r"\{[^{}]*\}")


def real() -> list[etree._Element]:
    """Return every stanza that somebody sends to the service in a scenario."""
    return [
        parse(PLACE.sub("pq-1-1", step.xml))
        for path in sorted(SCENARIOS.glob("*.txt"))
        for step in read(path.read_text()).steps
        if isinstance(step, Send)
    ]


def names() -> tuple[list[str], list[str], list[str]]:
    """Return the schemas' elements, by their qualified names, their attributes, and what these may say."""
    elements: set[str] = set()
    attributes: set[str] = set(USUAL)
    values: set[str] = set(SETTINGS)
    for path in SCHEMAS.glob("*.xsd"):
        schema = etree.parse(path).getroot()
        space = schema.get("targetNamespace")
        elements.update(f"{{{space}}}{name}" for name in _named(schema, "element"))
        attributes.update(_named(schema, "attribute"))
        values.update(one.get("value", "") for one in schema.iter(f"{XS}enumeration"))
    return sorted(elements), sorted(attributes), sorted(values)


def _named(schema: etree._Element, kind: str) -> Iterator[str]:
    return (name for one in schema.iter(f"{XS}{kind}") if (name := one.get("name")) is not None)
