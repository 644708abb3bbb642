"""The check on processor time finds what is not linear."""

import pytest

from proof.fuzz.costs import KINDS, is_too_dear, units
from pubqueue.faces.xmpp.stream import expat, reader
from pubqueue.faces.xmpp.xml.stanza import Stanza, _declare
from pubqueue_xeps.wire import ns

SMALL = 96 * 1024
"""What is not linear takes three times the bound then, so that no noise hides it."""


def product(self, path):
    """Cut as it was done once: each declaration around a piece was looked for in it."""
    element, base = path[-1], self.top.start
    piece = self.raw[element.start - base : element.end - base]
    inherited = self._declared.copy()
    for ancestor in path[:-1]:
        inherited.update(ancestor.declared or {})
    if inherited.get("") == ns.COMPONENT:
        inherited[""] = ns.CLIENT
    missing = [
        (prefix, uri)
        for prefix, uri in inherited.items()
        if prefix not in (element.declared or {})
        and (not prefix or prefix.encode() + b":" in piece)
    ]
    return _declare(piece, missing) if missing else piece


def test_the_cutter_that_looked_for_each_declaration_is_found(monkeypatch):
    monkeypatch.setattr(Stanza, "cut", product)
    monkeypatch.setattr(reader, "MAX_DECLARED", 1 << 30)
    assert is_too_dear(*units(KINDS["declarations times items"], SMALL))


@pytest.mark.parametrize("kind", ["a namespace times elements", "a namespace times attributes"])
def test_long_namespaces_that_reach_expat_are_found(monkeypatch, kind):
    monkeypatch.setattr(expat, "long_namespace", lambda _data: None)
    assert is_too_dear(*units(KINDS[kind], SMALL))
