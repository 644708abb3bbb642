"""Bodies, headers and links of a message: they come back as they were posted."""

from urllib.parse import quote, unquote

import pytest
from faces.contract import BODIES
from faces.documented_limits import limit
from faces.rest.clients import follow, links
from faces.rest.star.steps import post, take
from harness.batches.facts import held

from pubqueue.faces.http.problems import ProblemError
from pubqueue.faces.rest.items import OWN_RELATIONS, headers_of, wishes_of


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


NAME = "bytes of a header's name"


async def test_the_largest_of_everything_that_is_promised_comes_back(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    size, group = limit("bytes of its id"), limit("bytes of its group")
    names, values = limit("headers"), limit("bytes of all names and values of its headers")
    longest = {f"Message-Header-{'n' * limit(NAME)}": "v"}
    half = {f"Message-Header-{number}": "v" * (values // 4 - 1) for number in range(4)}
    many = {f"Message-Header-{number:03}": "v" for number in range(names)}
    for name, headers in (
        ("é" * (size // 2) + "x", longest),
        ("y" * size, half),
        ("a\u200cb", many),
    ):
        given = {"Message-Id": quote(name, safe=""), "Message-Group": name[-1] * group, **headers}
        assert (await post(etl, **given)).status_code == 201
        found = (await take(bee)).headers
        assert unquote(found["Message-Id"]) == name
        assert {key: found[key] for key in headers} == headers
        assert unquote(found["Message-Group"]) == given["Message-Group"]
    for given in ({"Message-Id": "x" * (size + 1)}, {"Message-Group": "g" * (group + 1)}):
        assert (await post(etl, **given)).status_code == 400


async def test_headers_that_http_has_no_name_or_value_for_come_back(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    given = {"Message-Header-a%20%C3%A4%25": "b", "Message-Header-content-language": "%20de%0A"}
    assert (await post(etl, **given)).status_code == 201
    found = (await take(bee)).headers
    assert found["Message-Header-a%20%C3%A4%25"] == "b"
    assert found["Message-Header-content-language"] == "%20de%0A"


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


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([("Message-Prioritty", "5")], "Message-Prioritty is not a header of messages"),
        (
            [("Message-Expires", "2030-01-01T00:00:00Z")],
            "Message-Expires is not a header of messages",
        ),
        ([("Message-Priority", "5"), ("message-priority", "6")], "message-priority occurs twice"),
        ([("Message-Ttl", "5"), ("Message-Max-Ttl", "6")], "Message-Max-Ttl occurs twice"),
    ],
)
def test_a_header_of_messages_that_would_be_ignored_is_refused(headers, said):
    with pytest.raises(ProblemError) as problem:
        wishes_of(headers)
    assert (problem.value.status, problem.value.detail) == (400, said)


def test_headers_that_the_service_set_may_stay_and_some_may_occur_twice():
    given = [
        ("Message-Attempt", "3"),
        ("Message-Publisher", "a@b"),
        ("Link", "<a>"),
        ("Link", "<b>"),
    ]
    assert wishes_of(given).links == ["<a>", "<b>"]
