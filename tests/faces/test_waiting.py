"""What has come for an item, as one text: it means what was sent, and every header can have it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pubqueue.faces.rest.items import encoded
from pubqueue.faces.stomp.codec import VERSIONS, Frame, FrameBounds, FrameReader, Side, write
from pubqueue.faces.waiting import came_for, names_in, then_of
from pubqueue.model.waits import AtDeadline, Came, Wait

TEXTS = some.text(some.characters(exclude_categories=["Cs"]))
SIGNALS = some.builds(Came, TEXTS, TEXTS, TEXTS, TEXTS, some.integers(0, 1 << 50))


@given(TEXTS, some.lists(SIGNALS, max_size=3))
def test_it_means_what_was_sent_and_has_only_what_headers_carry(carry, came):
    text = came_for(Wait(carry=carry, came=tuple(came)))
    found = json.loads(text)
    assert found.get("carry", "") == carry
    assert ("carry" in found) is bool(carry)
    parts = [
        (one["id"], one["name"], one["data"], one["by"], one["at"]) for one in found["signals"]
    ]
    assert parts == [(one.id, one.name, one.data, one.by, one.at) for one in came]
    assert text.isascii()
    assert text.isprintable()
    assert encoded(text) == text, "HTTP has it as it is"


@pytest.mark.parametrize("version", VERSIONS)
@given(TEXTS)
def test_a_header_of_each_version_of_stomp_has_it_exactly(version, data):
    text = came_for(Wait(came=(Came("1", "yes", data, "boss@x", 5),)))
    reader = FrameReader(Side.SERVER, bounds=FrameBounds())
    reader.agree(VERSIONS[version])
    reader.receive(
        write(
            Frame(
                "MESSAGE",
                {"destination": "/queue/a", "message-id": "1", "subscription": "s", "waited": text},
            ),
            VERSIONS[version],
        )
    )
    assert reader.next_event().headers["waited"] == text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('["yes", "a, b"]', ("yes", "a, b")),
        ("[]", ()),
        ('["caf\\u00e9"]', ("caf\u00e9",)),
        ("yes", None),
        ('"yes"', None),
        ('["yes", 1]', None),
        ('["\\ud800"]', None),
        ('{"yes": 1}', None),
        ("[" * 9_000, None),
        ("", None),
    ],
)
def test_names_are_a_list_of_texts(text, names):
    assert names_in(text) == names


def test_the_words_for_the_end_of_the_time():
    assert [then_of(one.value) for one in AtDeadline] == list(AtDeadline)
    assert then_of("DEAD") is then_of("") is None
