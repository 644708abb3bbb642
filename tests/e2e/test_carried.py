"""Values that carriers like to change, through the library, Prosody and ejabberd: they arrive as they are, or nothing is sent."""

import asyncio
from xml.etree.ElementTree import Element

import pytest
from harness.servers.behind import SERVICE, address_of, behind_both, serving, worker_at

from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.names import BadCharacterError, is_clean

pytestmark = pytest.mark.e2e
NODES = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#group_limit" = 1000
"""
NAMES = [
    *(
        "order-17\r",
        "order-17 ",
        "order-17",
        "a\nb",
        "a b",
        "c\td",
        "c d",
        "e\r\nf",
        " lead",
        "trail  ",
    ),
    *(
        "\u0645\u06cc\u200c\u062e\u0648",
        "\u0915\u094d\u200d\u0937",
        "\u6771\u3000\u4eac",
        "n\u00a0b",
        "\U0001fae8",
    ),
    *(
        "\u212b",
        "\u00c5",
        "A\u030a",
        "\ufeffbom",
        "\u202eltr",
        "\ue000",
        "\u0378",
        "x\u2028y",
        "x\u0085y",
        "\ufdd0",
    ),
    *(
        "\ufffe",
        "\ufffd",
        "\U0001fffe",
        "\ud800",
        "\x00",
        "\x7f",
        "&amp;",
        "&#13;",
        "<a b='c'>",
        "\"'",
        "%0D",
        "]]>",
    ),
]
TEXTS = [
    *(
        "a\nb",
        "a\tb",
        "  a  ",
        "a\u2028b",
        "\u0085",
        "\ufdd0",
        "\U0001ffff",
        "&#13;",
        "]]>",
        "\n",
        "a\rb",
        "a\r\nb",
    ),
    *("\ufffe", "\x01", "\ud800"),
]


server = behind_both("etl", "bot")
program = serving(NODES)


@pytest.fixture
async def publisher(server, program):
    async with Publisher(
        "etl@localhost", "secret", service=SERVICE, **address_of(server)
    ) as opened:
        yield opened


async def worked_on(server, count):
    """Work on so many items, and return them."""
    found, done = [], asyncio.Event()

    async def handle(item):
        found.append(item)
        if len(found) == count:
            done.set()

    running = asyncio.create_task(worker_at(server, requests=100).run(handle))
    await done.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return found


async def tried(publisher, given):
    """Publish each of these items, and return which were confirmed."""
    confirmed = []
    for number, (payload, beside) in enumerate(given):
        try:
            beside.setdefault("id", f"i{number}")
            published = await publisher.publish("jobs", payload, **beside)
        except ValueError:
            continue
        assert published.id == beside["id"]
        confirmed.append(number)
    return confirmed


async def test_names_arrive_as_they_are_or_are_not_sent(server, publisher):
    names = [
        {"id": name, "group": name, "headers": {name: name.replace("\r", "")}} for name in NAMES
    ]
    confirmed = await tried(
        publisher, [(number, dict(beside)) for number, beside in enumerate(names)]
    )
    assert [NAMES[number] for number in confirmed] == [name for name in NAMES if is_clean(name)]
    items = await worked_on(server, len(confirmed))
    assert {item.data: (item.id, item.headers) for item in items} == {
        number: (NAMES[number], {NAMES[number]: NAMES[number]}) for number in confirmed
    }


async def test_texts_of_every_form_arrive_as_they_are_or_are_not_sent(server, publisher):
    given, read = [], []
    for text in TEXTS:
        element = Element("{x}job", nr=text)
        element.text = text
        given += [
            *((text, {}), ({"a": text}, {}), (text, {"type": "text/plain"})),
            *((element, {}), (0, {"headers": {"h": text}})),
        ]
        read += [
            *(lambda item: item.data, lambda item: item.data["a"], lambda item: item.decode(str)),
            lambda item: (item.payload.get("nr"), item.payload.text),
            lambda item: item.headers["h"],
        ]
    wanted = [(text, text) if at == 3 else text for text in TEXTS for at in range(5)]
    confirmed = await tried(publisher, given)
    assert len(confirmed) > 45
    items = {item.id: item for item in await worked_on(server, len(confirmed))}
    assert {number: read[number](items[f"i{number}"]) for number in confirmed} == {
        number: wanted[number] for number in confirmed
    }


async def test_what_is_refused_is_told_in_facts(publisher):
    with pytest.raises(
        BadCharacterError, match="id 'a\\\\rb' has the character U\\+000D"
    ) as caught:
        await publisher.publish("jobs", 1, id="a\rb")
    assert (caught.value.character, caught.value.position) == ("\r", 1)
