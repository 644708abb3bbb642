"""A message is published once, however often it is posted: by its id, by a key, or to a one-off link."""

import asyncio

import pytest
from faces.rest.clients import follow, links, served
from faces.rest.star.steps import post, take

from pubqueue.model.entities import seconds
from pubqueue.stores.sqlite import SqliteStore


async def begin(client, path="/queues/jobs", rel="post-message-once"):
    """Ask for a one-off link."""
    return await client.post(await follow(client, path, rel))


async def count(rest, path="/queues/jobs"):
    """How many messages there are."""
    return (await (await rest.as_()).get(path)).json()["counts"]["messages"]


@pytest.mark.parametrize("path", ["/queues/jobs", "/topics/news"])
async def test_an_empty_post_returns_a_link_and_publishes_nothing(rest, path):  # R03
    etl = await rest.as_()
    begun = await begin(etl, path)
    assert (begun.status_code, links(begun).keys()) == (200, {"create-next"})
    wrong = await etl.post(await follow(etl, path, "post-message-once"), content=b"x")
    assert wrong.status_code == 400
    assert wrong.json()["type"].endswith(":body-not-expected")
    assert await count(rest, path) == 0


async def test_a_link_takes_a_message_once_and_leads_on(rest):  # R04, R05, R08
    etl, bee = await rest.as_(), await rest.as_("bee")
    first = links(await begin(etl))["create-next"]
    posted = await etl.post(first, content=b"a", headers={"Message-Id": "1"})
    assert posted.status_code == 200
    assert posted.headers["Content-Location"].endswith("/messages/1")
    second = links(posted)["create-next"]
    assert second != first
    again = await etl.post(first, content=b"b")
    assert (again.status_code, again.headers["Allow"]) == (405, "OPTIONS")
    assert again.headers["Content-Location"] == posted.headers["Content-Location"]
    assert await count(rest) == 1
    third = links(again)["create-next"]
    assert (await etl.post(third, content=b"c")).status_code == 200
    assert (await etl.post(second, content=b"d")).status_code == 200
    assert [(await take(bee)).content for _ in range(3)] == [b"a", b"c", b"d"]


async def test_a_used_link_is_405_whatever_is_posted(rest):  # R05
    etl = await rest.as_()
    to = links(await begin(etl))["create-next"]
    assert (await etl.post(to, content=b"a")).status_code == 200
    for more in ({"Message-Priority": "no"}, {"Message-Group": "g" * 300}):
        assert (await etl.post(to, content=b"", headers=more)).status_code == 405
    assert (await etl.post(to, content=b"x" * 300_000)).status_code == 405


async def test_of_concurrent_posts_one_publishes(rest):  # R06
    etl = await rest.as_()
    to = links(await begin(etl))["create-next"]
    answers = await asyncio.gather(*[etl.post(to, content=b"a") for _ in range(20)])
    assert sorted(one.status_code for one in answers) == [200] + [405] * 19
    assert len({one.headers["Content-Location"] for one in answers}) == 1
    assert await count(rest) == 1


async def test_a_get_shows_whether_a_link_is_used(rest):  # W19
    etl = await rest.as_()
    to = links(await begin(etl))["create-next"]
    for allow in ("OPTIONS, POST", "OPTIONS"):
        for method in ("GET", "HEAD"):
            looked = await etl.request(method, to)
            assert (looked.status_code, looked.headers["Allow"]) == (405, allow)
        await etl.post(to, content=b"a")


async def test_an_unknown_link_is_404_with_a_place_to_begin(rest):  # R09
    etl, bee = await rest.as_(), await rest.as_("bee")
    to = links(await begin(etl))["create-next"]
    forged = to[:-1] + ("0" if to[-1] != "0" else "1")
    elsewhere = to.replace("/queues/jobs/", "/topics/news/")
    for client, url in ((bee, to), (etl, forged), (etl, elsewhere), (etl, f"{to}-1")):
        answer = await client.post(url, content=b"x")
        assert answer.status_code == 404
        assert links(answer)["post-message-once"].endswith("/once")
    assert (await etl.post(to, content=b"a")).status_code == 200


async def test_an_expired_link_is_404(rest):  # R09, W25
    etl = await rest.as_()
    to = links(await begin(etl))["create-next"]
    broker = rest.broker
    begun, now = broker.now(), broker.now
    broker.now = lambda: begun + seconds(86_399)
    assert (await etl.post(to, content=b"a")).status_code == 200
    assert (await etl.post(to, content=b"a")).status_code == 405
    broker.now = lambda: begun + seconds(86_402)
    assert (await etl.post(to, content=b"a")).status_code == 404
    broker.now = now


async def test_a_refused_publish_leaves_the_link_unused(rest):
    etl = await rest.as_()
    await rest.make("small", max_items=1)
    to = links(await begin(etl, "/queues/small"))["create-next"]
    await post(etl, path="/queues/small")
    full = await etl.post(to, content=b"a")
    assert (full.status_code, full.json()["type"].rpartition(":")[2]) == (507, "full")
    bee = await rest.as_("bee")
    message = await take(bee, "/queues/small")
    await bee.post(links(message)["acknowledgement"], data={"acknowledge": "true"})
    assert (await etl.post(to, content=b"a")).status_code == 200


async def test_links_hold_over_a_restart(tmp_path):  # R07, R10, W25
    used = unused = ""
    for at in range(2):
        async with served(SqliteStore(tmp_path / "queue.db")) as rest:
            etl = await rest.as_()
            if not at:
                await rest.make("jobs")
                used, unused = [links(await begin(etl))["create-next"] for _ in range(2)]
                assert (await etl.post(used, content=b"a")).status_code == 200
                continue
            used, unused = [
                rest.root + url.partition("/rest")[2] for url in (used, unused)
            ]  # the port is another one
            again = await etl.post(used, content=b"a")
            assert again.status_code == 405
            assert (await etl.post(unused, content=b"b")).status_code == 200
            assert (await etl.post(links(again)["create-next"], content=b"c")).status_code == 200
            assert await count(rest) == 3


@pytest.mark.parametrize("given", ['"a key"', "token", r'"\"\\"'])
async def test_an_idempotency_key_is_used_once(rest, given):  # W23
    etl, bee = await rest.as_(), await rest.as_("bee")
    first = await post(etl, b"a", Idempotency_Key=given)
    again = await post(etl, b"a", Idempotency_Key=given)
    assert first.status_code == again.status_code == 201
    assert first.headers["Location"] == again.headers["Location"]
    for body, kind in ((b"b", "text/plain"), (b"a", "text/html")):
        other = await post(etl, body, kind, Idempotency_Key=given)
        assert (other.status_code, other.json()["type"].endswith(":key-reused")) == (422, True)
    assert (await post(bee, b"b", Idempotency_Key=given)).status_code == 201, "another account's"
    assert await count(rest) == 2


async def test_a_repetition_by_key_has_the_status_of_the_first(rest):  # W23
    etl = await rest.as_()
    await post(etl, b"a", Message_Id="1")
    for _ in range(2):
        answer = await post(etl, b"b", Message_Id="1", Idempotency_Key='"k"')
        assert answer.status_code == 200


async def test_a_key_that_is_none_is_refused(rest):  # W23
    assert (await post(await rest.as_(), Idempotency_Key='"open')).status_code == 400


async def test_an_id_is_posted_once(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    assert (await post(etl, b"a", Message_Id="1")).status_code == 201
    assert (await post(etl, b"a", Message_Id="1")).status_code == 200
    fresh = await post(etl, b"b", Message_Id="1", If_None_Match="*")
    assert fresh.status_code == 412
    assert (await post(etl, b"b", Message_Id="1")).status_code == 200
    message = await take(bee)
    assert message.content == b"b"
    busy = await post(etl, b"c", Message_Id="1")
    assert (busy.status_code, busy.json()["type"].rpartition(":")[2]) == (409, "being-worked-on")


async def test_replies_go_to_a_destination_of_ours(rest):  # R14
    etl, bee = await rest.as_(), await rest.as_("bee")
    here = await follow(etl, "/queues/jobs", "post-message")
    back = await follow(etl, "/topics/news", "post-message")
    await etl.post(here, content=b"ask", headers={"Link": f'<{back}>; rel="reply-to"'})
    message = await take(bee)
    answered = await bee.post(links(message)["reply-to"], content=b"answer")
    assert answered.status_code == 201


async def test_a_message_that_is_too_large_as_it_is_stored_names_both_sizes(rest):
    await rest.make("small", max_payload_size=100)
    etl = await rest.as_()
    answer = await post(etl, b"<" * 60, path="/queues/small")
    problem = answer.json()
    assert (answer.status_code, problem["limit"]) == (413, 100)
    assert problem["size"] > problem["limit"]  # although the body has 60 bytes
    assert f"{problem['size']}" in problem["detail"]


async def test_a_message_with_an_empty_type_has_the_type_of_one_without(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    assert (await post(etl, b"work", "")).status_code == 201
    message = await take(bee)
    assert message.headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "attachment"),
        ('inline; filename="a.html"', 'attachment; filename="a.html"'),
        ("inline", "attachment"),
        ('Attachment; filename="a b"', 'Attachment; filename="a b"'),
        ('form-data; name="a"', 'attachment; name="a"'),
        ("attachment, inline", "attachment"),
        ("=?", "attachment"),
        ("", "attachment"),
    ],
)
async def test_a_message_is_a_download(rest, given, found):
    etl, bee = await rest.as_(), await rest.as_("bee")
    headers = {} if given is None else {"Content_Disposition": given}
    await post(etl, **headers)
    assert (await take(bee)).headers.get_list("Content-Disposition") == [found]
