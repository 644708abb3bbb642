"""Batches: Atom or multipart, in one commit, all or none."""

import threading
import time

import pytest
from faces.rest.clients import follow, links
from faces.rest.star.steps import take
from faces.rest.star.test_publishing import begin, count

from pubqueue.faces.rest import batches

FEED = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<title>Orders</title>
<entry><id>urn:x-pubqueue:0:item:one</id><content>a &lt; b</content></entry>
<entry><content type="html">&lt;b&gt;</content><link rel="reply-to" href="https://example.org/r"/></entry>
<entry><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">x</div></content></entry>
<entry><content type="application/vnd.a+xml"><x:a xmlns:x="urn:x"/></content></entry>
<entry><content type="image/png">AAEC
/w==</content></entry>
</feed>"""
OF_FEED = [
    ("text/plain; charset=utf-8", b"a < b"),
    ("text/html; charset=utf-8", b"<b>"),
    ("application/xhtml+xml", b'<div xmlns="http://www.w3.org/1999/xhtml">x</div>'),
    ("application/vnd.a+xml", b'<x:a xmlns:x="urn:x" xmlns="http://www.w3.org/2005/Atom"/>'),
    ("image/png", b"\0\1\2\xff"),
]
PARTS = (
    b"preamble\r\n--b 1\r\nContent-Type: image/png\r\nMessage-Priority: 3\r\n\r\n\0\r\n--b\r\n\xff"
    b"\r\n--b 1  \r\n\r\nno headers\r\n--b 1\r\nMessage-Id: one\r\n\r\n\r\n--b 1--\r\nepilogue"
)
ATOM = {"Content-Type": "application/atom+xml"}
MULTIPART = {"Content-Type": 'multipart/mixed; boundary="b 1"'}


async def batch(client, body, headers, path="/queues/jobs", rel="post-batch", **more):
    """Post a batch."""
    named = {name.replace("_", "-"): value for name, value in more.items()}
    to = await follow(client, path, rel)
    return await client.post(to, content=body, headers={**headers, **named})


def urls(response):
    """The lines of a list of URLs."""
    assert response.headers["Content-Type"] == "text/uri-list"
    assert response.text.endswith("\r\n")
    return response.text.split("\r\n")[:-1]


async def test_a_feed_is_a_batch(rest):  # R11
    etl, bee = await rest.as_(), await rest.as_("bee")
    posted = await batch(etl, FEED, ATOM)
    assert posted.status_code == 201
    found = urls(posted)
    assert len(found) == 5
    assert found[0].endswith("/messages/one")
    messages = [await take(bee) for _ in found]
    assert [one.headers["Content-Location"] for one in messages] == found
    assert [(one.headers["Content-Type"], one.content) for one in messages] == OF_FEED
    assert links(messages[1])["reply-to"] == "https://example.org/r"
    assert urls(await etl.get(posted.headers["Location"])) == found


async def test_the_parts_of_a_multipart_body_are_a_batch(rest):  # R11
    etl, bee = await rest.as_(), await rest.as_("bee")
    posted = await batch(etl, PARTS, MULTIPART)
    assert posted.status_code == 201
    assert len(urls(posted)) == 3
    messages = [await take(bee) for _ in range(3)]
    assert [one.content for one in messages] == [b"\0\r\n--b\r\n\xff", b"no headers", b""]
    assert messages[0].headers["Content-Type"] == "image/png"
    assert messages[0].headers["Message-Priority"] == "3"
    assert messages[2].headers["Message-Id"] == "one"
    assert urls(await etl.get(posted.headers["Location"])) == urls(posted)


async def test_a_batch_without_ids_costs_no_record_and_can_be_listed(rest):  # R11
    etl, bee = await rest.as_(), await rest.as_("bee")
    posted = await batch(etl, b"--b\r\n\r\n1\r\n--b\r\n\r\n2\r\n--b--", boundary("b"))
    where = posted.headers["Location"]
    assert urls(await etl.get(where)) == urls(posted)
    assert (await bee.get(where)).status_code == 404
    assert (await etl.get(where[:-1] + "3")).status_code == 404


def boundary(name):
    return {"Content-Type": f"multipart/mixed;boundary={name}"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "index"),
    [
        (FEED.replace("AAEC", "!"), ATOM, 400, 4),
        (FEED.replace(">a &lt; b", ' src="http://x/">'), ATOM, 400, 0),
        (FEED.replace('type="html"', 'type="xhtml"'), ATOM, 400, 1),
        (FEED.replace("urn:x-pubqueue:0:item:one", "urn:x-pubqueue:0:item:"), ATOM, 400, 0),
        ("<feed xmlns='http://www.w3.org/2005/Atom'/>", ATOM, 400, None),
        ("<a/>", ATOM, 400, None),
        ("<a", ATOM, 400, None),
        (FEED.replace("<feed", "<!DOCTYPE a><feed"), ATOM, 400, None),
        (FEED.encode("utf-16"), ATOM, 400, None),
        (PARTS.replace(b"Priority: 3", b"Priority: x"), MULTIPART, 400, 0),
        (PARTS.replace(b"Message-Id: one", b"broken"), MULTIPART, 400, 2),
        (PARTS.replace(b"image/png", b"multipart/mixed; boundary=c"), MULTIPART, 400, 0),
        (
            PARTS.replace(b"Message-Priority: 3", b"Content-Transfer-Encoding: base64"),
            MULTIPART,
            400,
            0,
        ),
        (PARTS.replace(b"--b 1--", b""), MULTIPART, 400, 2),
        (b"", MULTIPART, 400, None),
        (b"--b--", boundary("b"), 400, None),
        (PARTS, {"Content-Type": "multipart/mixed"}, 400, None),
        (PARTS, {"Content-Type": "text/plain"}, 415, None),
        (b"\r\n".join([b"--b\r\n\r\nx"] * 1001 + [b"--b--"]), boundary("b"), 413, None),
        (b"--b\r\n\r\n" + b"x" * 300_000 + b"\r\n--b--", boundary("b"), 413, 0),
        (b"x" * (5 << 20), boundary("b"), 413, None),
    ],
)
async def test_of_a_batch_with_an_error_nothing_is_published(
    rest, body, headers, status, index
):  # R11
    etl = await rest.as_()
    answer = await batch(etl, body, headers)
    assert answer.status_code == status
    assert answer.json().get("index") == index
    assert await count(rest) == 0


async def test_a_batch_is_published_once(rest):  # R12
    etl = await rest.as_()
    begun = await begin(etl, rel="post-batch-once")
    first = links(begun)["create-next"]
    posted = await etl.post(first, content=PARTS, headers=MULTIPART)
    assert posted.status_code == 200
    assert len(urls(posted)) == 3
    again = await etl.post(first, content=FEED, headers=ATOM)
    assert (again.status_code, again.headers["Allow"]) == (405, "OPTIONS")
    assert urls(await etl.get(again.headers["Content-Location"])) == urls(posted)
    assert await count(rest) == 3
    third = await etl.post(links(again)["create-next"], content=FEED, headers=ATOM)
    assert third.status_code == 200
    assert (
        await etl.post(await follow(etl, "/queues/jobs", "post-batch-once"), content=b"x")
    ).status_code == 400


async def test_a_batch_with_an_idempotency_key_is_published_once(rest):  # W23
    etl = await rest.as_()
    first = await batch(etl, PARTS, MULTIPART, Idempotency_Key='"k"')
    again = await batch(etl, PARTS, MULTIPART, Idempotency_Key='"k"')
    assert first.status_code == again.status_code == 201
    assert urls(first) == urls(again)
    assert (await batch(etl, FEED, ATOM, Idempotency_Key='"k"')).status_code == 422
    assert await count(rest) == 3


BOMBS = {
    "entities": b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><a>&b;</a>",
    "external": b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
    "deep": b"<a>" * 50_000 + b"</a>" * 50_000,
    "wide": b"<a>" + b"<b/>" * 500_000 + b"</a>",
    "attributes": b"<a " + b" ".join(b"b%d=''" % at for at in range(100_000)) + b"/>",
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb_is_refused_in_bounded_time(rest, name):  # W14
    etl = await rest.as_()
    begun = time.process_time()
    assert (await batch(etl, BOMBS[name], ATOM)).status_code == 400
    assert time.process_time() - begun < 5


def test_a_document_is_parsed_once_it_is_known_to_be_small():  # W14
    assert batches.parsed(b"<a>" * 100 + b"</a>" * 100).tag == "a"


BATCH = {"Content-Type": "multipart/mixed; boundary=b"}


def of_part(head):
    return f"--b\r\n{head}\r\n\r\nz\r\n--b--\r\n".encode()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Link: " + ",".join(["<a>"] * 16), 201),
        ("Link: " + ",".join(["<a>"] * 17), 431),
        ("Link: <a>\r\n" * 16 + "Link: <a>", 431),
        ("\r\n".join(["a: b"] * 128), 201),
        ("\r\n".join(["a: b"] * 129), 431),
        ("Message-Header-A: x" + " " * 16_000 + "y", 201),
    ],
)
async def test_links_and_lines_of_a_part_are_bounded(rest, head, status):
    etl = await rest.as_()
    answer = await etl.post("/queues/jobs/batches", content=of_part(head), headers=BATCH)
    assert answer.status_code == status, answer.text


async def test_links_of_a_message_are_bounded(rest):
    etl = await rest.as_()
    statuses = [
        (
            await etl.post("/queues/jobs/messages", content=b"x", headers={"Link": ",".join(links)})
        ).status_code
        for links in (["<a>"] * 16, ["<a>"] * 17)
    ]
    assert statuses == [201, 431]


@pytest.mark.parametrize("path", ["/queues/closed/batches", "/queues/none/batches"])
async def test_nothing_of_a_batch_is_read_for_who_may_not_publish(rest, monkeypatch, path):
    await rest.make("closed", publish_model="publishers")
    read = []
    monkeypatch.setattr(batches, "entries_of_parts", lambda *given: read.append(given))
    eve = await rest.as_("eve")
    answer = await eve.post(path, content=of_part("a: b"), headers=BATCH)
    assert (answer.status_code, read) == (404 if "none" in path else 403, [])


async def test_a_batch_is_read_beside_the_loop(rest, monkeypatch):
    threads = []
    parse = batches.entries_of_parts

    def note(*given):
        threads.append(threading.current_thread())
        return parse(*given)

    monkeypatch.setattr(batches, "entries_of_parts", note)
    etl = await rest.as_()
    answer = await etl.post("/queues/jobs/batches", content=of_part("a: b"), headers=BATCH)
    assert answer.status_code == 201
    assert threading.main_thread() not in threads
    assert threads
