"""Push consumers: registered as XML, called in three ways, and retried by their own counts."""

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from faces.rest.clients import served
from faces.rest.hornetq.steps import create, lead
from faces.rest.push.hooks import Hook, hooked, pushes_to
from harness.patience import LOOK, TIMEOUT, until
from lxml import etree

from pubqueue.faces.push.client import for_origin
from pubqueue.faces.push.targets import Outcome, Verdict
from pubqueue.faces.rest.push import HornetqWords, filled, judged
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.stores.sqlite import SqliteStore

XML = {"Content-Type": "application/xml"}
SOON = "<retryWaitMillis>10</retryWaitMillis>"


def document(href, rel="push", more="", **attributes):
    """Return a push registration."""
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<push-registration><link rel="{rel}" href="{href}"{given}/>{more}</push-registration>'


@asynccontextmanager
async def pushing(*hooks, store=None):
    """Serve with targets that may be pushed to."""
    async with asyncio.timeout(TIMEOUT), hooked(*hooks) as root:
        push = pushes_to(root, timeout=5.0)
        async with served(store, **push) as rest:
            await rest.make("jobs", backoff_min=0)
            await rest.make("news", queueing=False)
            yield rest


async def register(client, text, path="/queues/jobs"):
    rel = "push-consumers" if path.startswith("/queues") else "push-subscriptions"
    return await client.post(await lead(client, path, rel), content=text, headers=XML)


async def clients(rest):
    return await rest.as_("etl", "hornetq"), await rest.as_("bee", "hornetq")


async def counts(rest):
    return (await (await rest.as_()).get("/queues/jobs")).json()["counts"]


async def becomes(rest, **wanted):
    """Wait until the queue has these counts."""

    async def is_so():
        found = await counts(rest)
        return all(found[name] == count for name, count in wanted.items())

    await until(is_so, every=LOOK)


async def enabled(client, place):
    return etree.fromstring((await client.get(place)).content).findtext("enabled") == "true"


async def test_a_registration_is_kept_shown_without_secrets_and_ended():  # H20, H30
    hook = Hook()
    secret = (
        '<header name="X-Key">hidden value</header><authentication><basic-auth>'
        "<username>us</username><password>hidden word</password></basic-auth></authentication>"
    )
    async with pushing(hook) as rest:
        _, bee = await clients(rest)
        text = document(hook.url, more=f"<durable>true</durable><maxRetries>5</maxRetries>{secret}")
        made = await register(bee, text)
        assert made.status_code == 201, made.text
        place = made.headers["Location"]
        shown = await bee.get(place)
        root = etree.fromstring(shown.content)
        assert (root.find("link").get("href"), root.findtext("maxRetries")) == (hook.url, "5")
        assert root.find("header").get("name") == "X-Key"
        assert "hidden" not in shown.text
        ann = await rest.as_("ann", "hornetq")
        assert (await ann.get(place)).status_code == 404
        assert (await ann.delete(place)).status_code == 404
        assert (await bee.delete(place)).status_code == 204
        assert (await bee.get(place)).status_code == 404


@pytest.mark.parametrize("path", ["/queues/jobs", "/topics/news"])
async def test_a_registration_has_one_of_two_names(path):  # H20
    hook = Hook()
    async with pushing(hook) as rest:
        _, bee = await clients(rest)
        for root in ("push-registration", "push-topic-registration"):
            text = document(hook.url).replace("push-registration", root)
            assert (await register(bee, text, path)).status_code == 201, root
        text = document(hook.url).replace("push-registration", "push-queue-registration")
        assert (await register(bee, text, path)).status_code == 400


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("<push-registration/>", 400),
        ("not XML", 400),
        (document("{url}", more="<maxRetries>many</maxRetries>"), 400),
        (document("{url}", more="<colour>red</colour>"), 400),
        (document("{url}", more="<maxRetries>1</maxRetries><maxRetries>2</maxRetries>"), 400),
        (document("{url}", more="<durable>perhaps</durable>"), 400),
        (document("{url}", more='<header name="Host">x</header>'), 400),
        (document("{url}", more='<header name="a b">x</header>'), 400),
        (document("{url}", more="<authentication><digest/></authentication>"), 400),
        (document("{url}", method="DELETE"), 400),
        (document("{url}", rel="template"), 400),
        (document("{url}/{id}"), 400),
        (document("{url}", more="<selector>a = 1</selector>"), 501),
        (document("http://192.0.2.1/"), 403),
    ],
)
async def test_other_registrations_are_refused(text, status):  # H20
    hook = Hook()
    async with pushing(hook) as rest:
        _, bee = await clients(rest)
        answer = await register(bee, text.replace("{url}", hook.url))
        assert answer.status_code == status
        assert rest.face.pushing.working == frozenset()


async def test_a_message_is_sent_with_the_method_type_and_headers_of_the_registration():  # H23, H24
    hook = Hook(303)
    more = (
        '<header name="X-Key">k</header><authentication><basic-auth><username>us</username>'
        "<password>w</password></basic-auth></authentication>"
    )
    async with pushing(hook) as rest:
        etl, bee = await clients(rest)
        await register(bee, document(hook.url, more=more, method="put", type="text/x-own"))
        await create(etl, b"one", Content_Type="text/plain")
        request, body = await hook.next()
        assert (request.method, body) == ("PUT", b"one")
        assert request.headers["Content-Type"] == "text/x-own"
        assert request.headers["X-Key"] == "k"
        pair = base64.b64decode(request.headers["Authorization"].removeprefix("Basic "))
        assert pair == b"us:w"
        await becomes(rest, messages=0)


async def test_a_template_has_the_id_of_the_message():  # H22
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee = await clients(rest)
        await register(bee, document(f"{hook.url}/x/{{id}}", "template"))
        await create(etl, b"one", Message_Id="a%2Fb")
        request, _ = await hook.next()
        assert request.rel_url.raw_path == "/0/x/a%2Fb"
        assert filled("http://x/{id}", "a b/c") == "http://x/a%20b%2Fc"


async def test_a_destination_is_asked_for_its_link_and_gets_each_message_under_an_id():  # H21
    hook = Hook()

    async def answers(request):
        link = {"msg-create-with-id": f"{hook.url}/create/{{id}}"}
        return web.Response(headers=link) if request.method == "HEAD" else web.Response(status=201)

    hook.answers = [answers]
    async with pushing(hook) as rest:
        etl, bee = await clients(rest)
        await register(bee, document(hook.url, "destination"))
        for name in ("a", "b"):
            await create(etl, name.encode(), Message_Id=name)
            assert (await hook.next())[0].method == "HEAD"
            request, body = await hook.next()
            assert (request.path, body) == (f"/0/create/{name}", name.encode())
        await becomes(rest, messages=0)


async def test_a_queue_of_ours_is_a_destination():  # H21
    hook = Hook()
    async with pushing(hook) as rest:
        await rest.make("other", backoff_min=0)
        etl, bee = await clients(rest)
        text = document(
            str(bee.base_url) + "queues/other",
            "destination",
            "<authentication><basic-auth><username>etl</username><password>"
            "correct horse battery staple</password></basic-auth></authentication>",
        )
        rest.face.settings = RestSettings(**pushes_to(rest.root.removesuffix("/rest")))
        assert (await register(bee, text)).status_code == 201
        await create(etl, b"one")
        message = await (await rest.as_()).post(
            "/queues/other/consumer", headers={"Accept-Wait": "30"}
        )
        assert message.content == b"one"


async def test_a_redirect_is_followed():  # H25
    hook, good = Hook(), Hook()
    async with pushing(hook, good) as rest:
        etl, bee = await clients(rest)
        hook.answers = [(307, {"Location": good.url})]
        await register(bee, document(hook.url))
        await create(etl, b"one")
        assert (await good.next())[1] == b"one"


async def test_a_target_is_called_again_until_its_retries_are_used_up():  # H28, H29
    hook = Hook(500)
    async with pushing(hook) as rest:
        etl, bee = await clients(rest)
        more = f"<maxRetries>3</maxRetries>{SOON}<disableOnFailure>true</disableOnFailure>"
        place = (await register(bee, document(hook.url, more=more))).headers["Location"]
        await create(etl, b"one")
        for _ in range(3):
            await hook.next()

        async def is_disabled():
            return not await enabled(bee, place)

        await until(is_disabled, every=LOOK)
        await becomes(rest, messages=1, locked=0, dead=0)
        taken = await (await rest.as_()).post(
            "/queues/jobs/consumer", headers={"Accept-Wait": "30"}
        )
        assert "Message-Failed" not in taken.headers
        assert hook.count == 3


async def test_without_disable_on_failure_the_rules_of_the_queue_follow():  # H29
    hook = Hook(404)
    async with pushing(hook) as rest:
        await rest.make("short", backoff_min=0, max_failures=1)
        etl, bee = await clients(rest)
        more = f"<maxRetries>2</maxRetries>{SOON}"
        place = (await register(bee, document(hook.url, more=more), "/queues/short")).headers
        await create(etl, b"one", "/queues/short")
        for _ in range(2):
            await hook.next()

        async def is_dead():
            found = (await (await rest.as_()).get("/queues/short")).json()["counts"]
            return found["dead"] == 1

        await until(is_dead, every=LOOK)
        assert await enabled(bee, place["Location"])


WORDS = HornetqWords("push", "http://x", "", retries=3, wait=2.0)
DISABLES = HornetqWords("push", "http://x", "", retries=3, wait=2.0, disables=True)


@pytest.mark.parametrize(
    ("verdict", "failures", "words", "expected"),
    [
        (Verdict.DONE, 0, WORDS, Verdict.DONE),
        (Verdict.BAD, 0, WORDS, Verdict.BAD),  # H27
        (Verdict.LATER, 5, WORDS, Verdict.LATER),  # H26
        (Verdict.FAILED, 0, WORDS, Verdict.AGAIN),
        (Verdict.FAILED, 2, WORDS, Verdict.FAILED),
        (Verdict.FAILED, 2, DISABLES, Verdict.DISABLED),
        (Verdict.GONE, 0, WORDS, Verdict.AGAIN),  # 410 ends no registration here
        (Verdict.DISABLED, 0, DISABLES, Verdict.DISABLED),  # H28
        (Verdict.DISABLED, 0, WORDS, Verdict.AGAIN),
    ],
)
def test_an_answer_is_judged_by_the_counts_of_the_registration(
    verdict, failures, words, expected
):  # H26, H27, H28, H29
    assert judged(Outcome(verdict, "because", 1.0), words, failures).verdict is expected


async def test_a_registration_outlives_its_instance_and_topics_are_pushed(tmp_path):  # H30, H33
    hook = Hook()
    async with asyncio.timeout(TIMEOUT), hooked(hook) as root:
        push = pushes_to(root)
        async with served(SqliteStore(tmp_path / "q.db"), **push) as rest:
            await rest.make("news", queueing=False)
            bee = await rest.as_("bee", "hornetq")
            made = await register(bee, document(hook.url), "/topics/news")
            assert made.status_code == 201
        async with served(SqliteStore(tmp_path / "q.db"), **push) as rest:
            etl = await rest.as_("etl", "hornetq")
            await until(lambda: rest.face.is_serving)
            for body in (b"one", b"two"):
                await create(etl, body, "/topics/news")
            assert [(await hook.next())[1] for _ in range(2)] == [b"one", b"two"]


@pytest.mark.parametrize(
    ("to", "kept"),
    [
        ("http://a.example/other", True),
        ("http://b.example/x", False),
        ("http://a.example:81/x", False),
        ("https://a.example/x", False),
    ],
)
def test_credentials_are_for_the_origin_that_they_were_given_for(to, kept):
    headers = [("authorization", "Basic s3cret"), ("X", "y")]
    found = for_origin(headers, "http://a.example/x", to)
    assert found == (headers if kept else headers[1:])


def test_nothing_shows_the_secrets_of_a_registration():
    words = HornetqWords("push", "http://x", "", authorization="Basic s3cret")
    assert "s3cret" not in repr(words)
