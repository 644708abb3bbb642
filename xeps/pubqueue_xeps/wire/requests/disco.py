"""The identity and features of a service or node (XEP-0030 section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue_xeps.wire.ns import DISCO_INFO
from pubqueue_xeps.wire.requests.iq import IqRequest
from pubqueue_xeps.wire.xml_escape import attributes

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def request(service: str, node: str | None = None) -> IqRequest:
    """Ask the service what it is, or what a node is."""
    words = f"what {service} is" if node is None else f"what node {node!r} is"
    return IqRequest("get", words, f"<query xmlns='{DISCO_INFO}'{attributes(node=node)}/>")


def features(answer: Element) -> frozenset[str]:
    """Return the features in an answer."""
    return frozenset(f.get("var", "") for f in answer.iter(f"{{{DISCO_INFO}}}feature"))
