"""Destinations and messages of the profile `hornetq`: created once, however often a request with an id is repeated."""

import asyncio

import pytest
from faces.rest.clients import served
from faces.rest.hornetq.steps import count, create, lead, msg
from faces.rest.star.steps import take
from harness.patience import LOOK, until
from lxml import etree

from pubqueue.stores.sqlite import SqliteStore

ATOM = "{http://www.w3.org/2005/Atom}link"


@pytest.mark.parametrize(
    ("path", "kind", "rels"),
    [
        ("/queues/jobs", "queue", {"pull-consumers", "push-consumers"}),
        ("/topics/news", "topic", {"pull-subscriptions", "push-subscriptions"}),
    ],
)
async def test_a_destination_has_links_as_headers_and_as_xml(rest, path, kind, rels):  # H01, H34
    etl = await rest.as_(profile="hornetq")
    for method in ("GET", "HEAD"):
        answer = await etl.request(method, path)
        assert answer.status_code == 200
        assert msg(answer).keys() == {"create", "create-with-id", "service-desc", *rels}
        assert msg(answer)["create-with-id"].endswith("/create/{id}")
    root = etree.fromstring((await etl.get(path)).content)
    assert (root.tag, root.findtext("name")) == (kind, path.rpartition("/")[2])
    assert {one.get("rel"): one.get("href") for one in root.findall(ATOM)} == {
        rel: url for rel, url in msg(answer).items() if rel != "create-with-id"
    }
    assert (await etl.get(path.replace("s/", "s/no-"))).status_code == 404


@pytest.mark.parametrize("path", ["/queues/jobs", "/topics/news"])
async def test_a_message_is_created_and_the_link_goes_on(rest, path):  # H02
    etl = await rest.as_(profile="hornetq")
    first = await create(etl, b"a", path)
    assert first.status_code == 201
    assert msg(first)["create-next"] == await lead(etl, path, "create")
    assert (await etl.post(msg(first)["create-next"], content=b"b")).status_code == 201
    assert await count(rest, path) == 2


async def test_without_duplicates_a_client_is_sent_to_an_id():  # H03
    async with served(dups_ok=False) as rest:
        await rest.make("jobs")
        etl = await rest.as_(profile="hornetq")
        sent = await create(etl, b"a")
        assert (sent.status_code, await count(rest)) == (307, 0)
        where = sent.headers["Location"]
        assert msg(sent)["create-next"] == where
        for _ in range(2):
            made = await etl.post(where, content=b"a")
            assert made.status_code == 201
            assert msg(made)["create-next"] not in {
                where,
                await lead(etl, "/queues/jobs", "create"),
            }
        assert (await etl.post(msg(made)["create-next"], content=b"b")).status_code == 201
        assert await count(rest) == 2
        to = await lead(etl, "/queues/jobs", "create")
        sent = await etl.post(f"{to}?priority=7&ttl=90000", content=b"c")
        assert sent.headers["Location"].partition("?")[2] == "priority=7&ttl=90000"
        assert (await etl.post(f"{to}?colour=red", content=b"c")).status_code == 400


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_an_id_makes_one_message_whatever_is_sent(rest, method):  # H04
    etl, bee = await rest.as_(profile="hornetq"), await rest.as_("bee")
    to = (await lead(etl, "/queues/jobs", "create-with-id")).replace("{id}", "a%2Fb%20c")
    answers = await asyncio.gather(*[etl.request(method, to, content=b"a") for _ in range(12)])
    assert {one.status_code for one in answers} == {201}
    assert len({one.headers["Message-Id"] for one in answers}) == 1
    assert await count(rest) == 1
    message = await take(bee)
    assert message.content == b"a"
    done = await bee.post(message.headers["msg-acknowledgement"], data={"acknowledge": "true"})
    assert done.status_code == 204
    for query, body in (("", b"a"), ("", b"another"), ("?priority=no", b"a"), ("", b"x" * 300_000)):
        again = await etl.request(method, to + query, content=body)
        assert again.status_code == 201, "after it is done"
    assert await count(rest) == 0


async def test_an_id_that_a_refused_request_had_is_unused(rest):  # H04
    etl = await rest.as_(profile="hornetq")
    to = (await lead(etl, "/queues/jobs", "create-with-id")).replace("{id}", "i")
    assert (await etl.post(f"{to}?ttl=soon", content=b"a")).status_code == 400
    assert (await etl.post(to, content=b"a")).status_code == 201
    assert await count(rest) == 1


async def test_ids_are_an_accounts_own_and_hold_over_a_restart(tmp_path):  # H04
    for run in range(2):
        async with served(SqliteStore(tmp_path / "queue.db")) as rest:
            if not run:
                await rest.make("jobs")
            for name in ("etl", "bee"):
                one = await rest.as_(name, "hornetq")
                to = (await lead(one, "/queues/jobs", "create-with-id")).replace("{id}", "i")
                assert (await one.post(to, content=b"a")).status_code == 201
            assert await count(rest) == 2


async def test_the_query_sets_priority_and_lifetime(rest):  # H05
    etl, bee = await rest.as_(profile="hornetq"), await rest.as_("bee")
    to = await lead(etl, "/queues/jobs", "create")
    for query in ("priority=10&durable=true", "priority=9&ttl=3600000&durable=FALSE"):
        assert (await etl.post(f"{to}?{query}", content=query)).status_code == 201
    first, second = await take(bee), await take(bee)
    assert (first.headers["Message-Priority"], "Message-Expires" in first.headers) == ("9", True)
    assert not {"Message-Priority", "Message-Expires"} & set(second.headers)
    for query in ("priority=high", "ttl=1.5", "expiration=soon", "ttl=-1", "durable=yes"):
        assert (await etl.post(f"{to}?{query}", content=b"")).status_code == 400


async def test_an_expired_message_is_created_and_gone(rest):  # H05
    etl, bee = await rest.as_(profile="hornetq"), await rest.as_("bee")
    to = await lead(etl, "/queues/jobs", "create")
    late = await etl.post(f"{to}?ttl=3600000&expiration=1000", content=b"a")
    assert late.status_code == 201

    async def is_nothing_there():
        return (await bee.post("/queues/jobs/consumer")).status_code == 503

    await until(is_nothing_there, every=LOOK)


async def test_headers_of_the_content_are_kept(rest):  # H06
    etl, bee = await rest.as_(profile="hornetq"), await rest.as_("bee")
    said = {
        "Content-Type": "application/json",
        "Content-Language": "de",
        "Content-Encoding": "x-own",
        "Link": '<http://a.example/b>; rel="author"',
    }
    assert (await create(etl, b"{}", **said)).status_code == 201
    message = await take(bee)
    assert {name: message.headers[name] for name in said if name != "Link"} == {
        name: value for name, value in said.items() if name != "Link"
    }
    assert said["Link"] in message.headers.get_list("Link")


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize(
    "media",
    [
        "application/activemq.xml",
        "application/xml",
        "application/{}",
        "application/hornetq.jms.{}+xml",
    ],
)
async def test_a_destination_is_made_once_and_deleted(rest, kind, media):  # H31, H32
    etl = await rest.as_(profile="hornetq")
    media = media.replace("/{}", "/activemq.jms.{}+xml").format(kind)
    body = f'<{kind} name="a b"><durable>true</durable></{kind}>'
    for status in (201, 412):
        made = await etl.post(f"/{kind}s", content=body, headers={"Content-Type": media})
        assert made.status_code == status
        where = made.headers.get("Location", locals().get("where"))
    assert (await create(etl, b"a", where)).status_code == 201
    assert (await etl.delete(where)).status_code == 204
    assert (await etl.get(where)).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        *("", "<queue/>", "<topic name='a'/>", "<!DOCTYPE a><queue name='a'/>"),
        "<queue name='a' mode='x'/>",
        "<queue name='a'><durable>maybe</durable></queue>",
        "<queue name='a'><selector string='b'/></queue>",
    ],
)
async def test_a_destination_that_cannot_be_read_is_refused(rest, body):  # H31
    etl = await rest.as_(profile="hornetq")
    for media, status in (("application/xml", 400), ("text/plain", 415)):
        made = await etl.post("/queues", content=body, headers={"Content-Type": media})
        assert made.status_code == status


async def test_replies_go_to_a_node_of_the_profile(rest):  # H06
    etl, bee = await rest.as_(profile="hornetq"), await rest.as_("bee")
    await rest.make("answers")
    to = await lead(etl, "/queues/answers", "create")
    await create(etl, b"?", Link=f'<{to}>; rel="reply-to"')
    replies = [one for one in (await take(bee)).headers.get_list("Link") if "reply-to" in one]
    assert "/nodes/answers/messages" in replies[0]
