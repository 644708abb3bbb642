import pytest
from harness.servers.stub_server import parse
from harness.stanzas.canonical import difference, substitute


def differs(expected, actual, names=None):
    return difference(parse(expected), parse(actual), {} if names is None else names)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("<iq a='1' b='2'/>", '<iq b="2"   a="1"></iq>'),
        ("<iq><p xmlns='urn:p'/></iq>", "<iq><q:p xmlns:q='urn:p'/></iq>"),
        ("<iq>\n  <a/>\n  <b/>\n</iq>", "<iq><a/><b/></iq>"),
        ("<iq id='{any}'>{any}</iq>", "<iq id='7'>x</iq>"),
        ("<iq id='{any?}'/>", "<iq/>"),
        ("<iq id='{any?}'/>", "<iq id='x'/>"),
        ("<iq id='{a}'><x id='{a}'/></iq>", "<iq id='1'><x id='1'/></iq>"),
        ("<iq at='{time}'/>", "<iq at='2026-11-21T03:00:00.000Z'/>"),
        ("<iq><?any-order?><a/><b/></iq>", "<iq><b/><a/></iq>"),
        ("<iq><?more?><b/></iq>", "<iq><a/><b/><c/></iq>"),
        ("<iq><?more?></iq>", "<iq><a/></iq>"),
        (
            "<iq><error/></iq>",
            "<iq><error><text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>No.</text></error></iq>",
        ),
        ("<iq><p>a <b/> c</p></iq>", "<iq><p>a <b/> c</p></iq>"),
    ],
)
def test_the_same(expected, actual):
    assert differs(expected, actual) == ""


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("<iq/>", "<message/>"),
        ("<iq/>", "<iq a='1'/>"),
        ("<iq a='1'/>", "<iq/>"),
        ("<iq a='1'/>", "<iq a='2'/>"),
        ("<iq><p xmlns='urn:p'/></iq>", "<iq><p xmlns='urn:q'/></iq>"),
        ("<iq><a/><b/></iq>", "<iq><b/><a/></iq>"),
        ("<iq><a/></iq>", "<iq><a/><b/></iq>"),
        ("<iq><a/></iq>", "<iq/>"),
        ("<iq>x</iq>", "<iq>y</iq>"),
        ("<iq id='{any}'/>", "<iq id=''/>"),
        ("<iq id='{any}'/>", "<iq/>"),
        ("<iq id='{a}'><x id='{a}'/></iq>", "<iq id='1'><x id='2'/></iq>"),
        ("<iq at='{time}'/>", "<iq at='yesterday'/>"),
        ("<iq><?any-order?><a/><b/></iq>", "<iq><b/><a/><c/></iq>"),
        ("<iq><?any-order?><a/><b/></iq>", "<iq><b/></iq>"),
        ("<iq><?more?><b/></iq>", "<iq><a/></iq>"),
        ("<iq><?more?><b><?more?><c/></b></iq>", "<iq><a/></iq>"),
        ("<iq><p xml:space='preserve'><a/> </p></iq>", "<iq><p xml:space='preserve'><a/></p></iq>"),
    ],
)
def test_not_the_same(expected, actual):
    assert differs(expected, actual)


def test_the_diff_shows_what_differs_and_only_that():
    diff = differs("<iq id='{x}' type='result'><a/></iq>", "<iq id='7' type='error'><a/></iq>")
    changed = [line for line in diff.splitlines() if line[0] in "-+"]
    assert changed == [
        '- <iq xmlns="jabber:component:accept" id="7" type="result">',
        '+ <iq xmlns="jabber:component:accept" id="7" type="error">',
    ]


def test_names_are_learnt_only_from_a_match_and_put_into_what_is_sent():
    names = {}
    assert differs("<iq id='{token}' a='1'/>", "<iq id='7' a='2'/>", names)
    assert names == {}
    assert not differs("<iq id='{token}'/>", "<iq id='&lt;7'/>", names)
    assert substitute("<x t='{token}'/>", names) == "<x t='&lt;7'/>"
    with pytest.raises(KeyError):
        substitute("{nobody}", names)
