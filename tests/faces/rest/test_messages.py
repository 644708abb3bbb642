"""A message is posted, taken and acknowledged, by links alone."""

import asyncio

import pytest
from faces.contract import BODIES
from faces.rest.clients import follow, links
from harness.batches.facts import held
from harness.patience import until

from pubqueue.faces.rest.items import OWN_RELATIONS, headers_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def post(client, body=b"work", kind="text/plain", path="/queues/jobs", **headers):
    """Post a message; return the answer."""
    to = await follow(client, path, "post-message")
    typed = {} if kind is None else {"Content-Type": kind}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(to, content=body, headers={**typed, **named})


async def take(client, path="/queues/jobs", **headers):
    """Ask for the next message; return the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(await follow(client, path, "consumer"), headers=named)


async def settle(client, message, verdict="acknowledge=true", **headers):
    """Post a form to the acknowledgement of a message; return the answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    where = links(message)["acknowledgement"]
    return await client.post(where, content=verdict, headers={**FORM, **named})


@pytest.mark.parametrize(("body", "kind"), BODIES)
async def test_a_body_comes_back_as_it_was_posted(rest, body, kind):  # R02, W05
    etl, bee = await rest.as_(), await rest.as_("bee")
    posted = await post(etl, body, kind)
    assert posted.status_code == 201
    assert links(posted)["self"] == posted.headers["Location"]
    message = await take(bee)
    assert message.status_code == 200
    assert message.content == body
    assert message.headers["Content-Type"] == (kind or "application/octet-stream")
    assert message.headers["Content-Location"] == posted.headers["Location"]


async def test_a_message_is_taken_and_acknowledged(rest):  # R17, R18, R35
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    found = links(message)
    assert found.keys() == {"acknowledgement", "self", "generator"}
    assert found["acknowledgement"] == message.headers["msg-acknowledgement"]
    assert found["generator"] == f"{rest.root}/queues/jobs"
    assert message.headers["ETag"] == f'"{found["acknowledgement"].rpartition("=")[2]}"'
    assert message.headers["Message-Deadline"].endswith("Z")
    assert (await settle(bee, message)).status_code == 204
    assert (await take(bee)).status_code == 503
    assert (await etl.get("/queues/jobs")).json()["counts"]["messages"] == 0


@pytest.mark.parametrize("spelling", [";etag={}", "%3Betag={}", "/{}"])
async def test_an_acknowledgement_is_spelt_in_three_ways(rest, spelling):  # R17
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    where, _, token = links(await take(bee))["acknowledgement"].partition(";etag=")
    done = await bee.post(where + spelling.format(token), data={"acknowledgement": "true"})
    assert done.status_code == 204


async def test_a_repeated_verdict_is_405_and_the_other_one_412(rest):  # R21
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    assert (await settle(bee, message)).status_code == 204
    again = await settle(bee, message)
    assert (again.status_code, again.headers["Allow"]) == (405, "OPTIONS")
    assert (await settle(bee, message, "acknowledge=false")).status_code == 412
    assert (await settle(bee, message, "touch=5")).status_code == 404


async def test_a_message_that_is_not_acknowledged_comes_again_under_another_tag(rest):  # R19, R20
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    first = await take(bee)
    assert (await settle(bee, first, "acknowledge=false")).status_code == 204
    second = await take(bee, Accept_Wait="5")
    assert second.headers["Message-Id"] == first.headers["Message-Id"]
    assert int(second.headers["ETag"].strip('"')) > int(first.headers["ETag"].strip('"'))
    assert (await settle(bee, first)).status_code == 412
    assert (await settle(bee, second)).status_code == 204


async def test_if_match_has_to_name_the_lock(rest):  # R24
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    assert (await settle(bee, message, If_Match='"77"')).status_code == 412
    assert (await settle(bee, message, If_Match=message.headers["ETag"])).status_code == 204


@pytest.mark.parametrize(
    "verdict",
    [
        "",
        "acknowledge=maybe",
        "acknowledge=true&acknowledge=true",
        "acknowledge=true&acknowledgement=false",
        "touch=5&acknowledge=true",
        "touch=-1",
        "acknowledge=false&outcome=sad",
        "acknowledge=false&delay=soon",
        "acknowledge=%FF",
    ],
)
async def test_a_form_without_one_clear_verdict_changes_nothing(rest, verdict):  # R22
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    assert (await settle(bee, message, verdict)).status_code == 400
    assert (await settle(bee, message)).status_code == 204


async def test_the_media_type_of_a_verdict_is_that_of_forms(rest):  # R22
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    wrong = await settle(bee, message, Content_Type="application/json")
    assert wrong.status_code == 415


async def test_an_acknowledgement_is_valid_for_its_client_only(rest):  # W07
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    await post(etl)
    message = await take(bee)
    assert (await settle(ann, message)).status_code == 403
    assert (await settle(bee, message)).status_code == 204


async def test_a_poll_waits_for_a_message(rest):  # R26
    etl, bee = await rest.as_(), await rest.as_("bee")
    waiting = asyncio.create_task(take(bee, Prefer="respond-async, wait=30"))
    await until(lambda: rest.face.waiting.count)
    await post(etl, b"late")
    message = await waiting
    assert (message.status_code, message.content) == (200, b"late")
    assert message.headers["Preference-Applied"] == "wait=30"


@pytest.mark.parametrize("name", ["Accept-Wait", "X-RS-Wait", "Prefer"])
async def test_a_wait_is_a_number_of_seconds(rest, name):  # R26
    bee = await rest.as_("bee")
    to = await follow(bee, "/queues/jobs", "poller")
    value = "wait={}" if name == "Prefer" else "{}"
    assert (await bee.post(to, headers={name: value.format("0.01")})).status_code == 503
    assert (await bee.post(to, headers={name: value.format("soon")})).status_code == 400


async def test_a_poller_takes_nothing_by_get(rest):  # R16
    bee = await rest.as_("bee")
    answer = await bee.get(await follow(bee, "/queues/jobs", "poller"))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, POST")


async def test_headers_belong_to_the_message(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    posted = await post(
        etl,
        Message_Id="n%C3%A4me %25",
        Message_Priority="7",
        Message_Ttl="60",
        Message_Group="g",
        Message_Header_Kind="caf%C3%A9%20",
        Correlation_Id="c1",
        traceparent="00-1-2-01",
        Content_Language="de",
        X_Other="not the message's",
        Link='<https://example.org/a>; rel="up", <https://example.org/b>;rel=reply-to',
    )
    assert posted.status_code == 201
    message = await take(bee)
    sent = message.headers
    assert sent["Message-Id"] == "n%C3%A4me %25"
    assert (sent["Message-Priority"], sent["Message-Group"]) == ("7", "g")
    assert "Message-Expires" in sent
    assert sent["Message-Header-Kind"] == "caf%C3%A9%20"
    assert (sent["Correlation-Id"], sent["traceparent"]) == ("c1", "00-1-2-01")
    assert (sent["Content-Language"], sent["Message-Attempt"]) == ("de", "1")
    assert "X-Other" not in sent
    found = links(message)
    assert (found["up"], found["reply-to"]) == ("https://example.org/a", "https://example.org/b")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Message-Priority", "high"),
        ("Message-Delay", "-1"),
        ("Message-Ttl", "x"),
        ("Message-Id", "%FF"),
        ("Link", "nowhere"),
    ],
)
async def test_a_header_that_cannot_be_read_is_refused(rest, name, value):
    etl = await rest.as_()
    to = await follow(etl, "/queues/jobs", "post-message")
    answer = await etl.post(to, content=b"x", headers={name: value})
    assert answer.status_code == 400
    assert name in answer.json()["detail"]


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


@pytest.mark.parametrize("target", ["http://[", "http://a:b", "a b", "http://ä"])
async def test_a_link_whose_target_is_no_uri_is_refused(rest, target):
    """The links of a message are beside ours, in fields that a strict worker could not read."""
    etl = await rest.as_()
    here = await follow(etl, "/queues/jobs", "post-message")
    field = f'<{target}>; rel="reply-to"'.encode()
    sent = await etl.post(here, content=b"ask", headers=[(b"Link", field)])
    assert (sent.status_code, sent.json()["detail"]) == (400, "Link cannot be read")


@pytest.mark.parametrize("rel", sorted(OWN_RELATIONS))
async def test_no_publisher_adds_a_link_of_the_service(rest, rel):
    etl, bee = await rest.as_(), await rest.as_("bee")
    field = f'<http://evil.example/1>; rel="{rel} up", <http://evil.example/2>; rel={rel.upper()}, <http://ok.example/>; rel=up'
    await post(etl, b"a", Link=field)
    found = (await take(bee)).headers.get_list("Link")
    assert "evil" not in str(found)
    assert "<http://ok.example/>; rel=up" in found


@pytest.mark.parametrize(
    ("value", "passed"),
    [
        ("<http://a/>; rel=up", ["<http://a/>; rel=up"]),
        ('<http://a/>;rel="acknowledgement"', []),
        ("nowhere", []),
        ("<http://[>; rel=up", []),
    ],
)
def test_links_of_other_protocols_are_passed_on_if_they_can_be_read(value, passed):
    fields = headers_of(held(headers=(("link", value),)), str)
    assert [text for name, text in fields if name == "Link"] == passed


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
    assert problem["size"] > 4 * 60
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
