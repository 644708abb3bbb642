"""What absolute links begin with, and who is believed about it."""

import pytest
from faces.rest.clients import links, served
from multidict import CIMultiDict

from pubqueue.faces.checks import networks
from pubqueue.faces.http.host import client_of
from pubqueue.faces.http.problems import ProblemError
from pubqueue.faces.rest.door import identify
from pubqueue.faces.rest.items import links_in
from pubqueue.faces.rest.links import (
    OF_CHANGES,
    PRECONDITIONS,
    Link,
    Words,
    base_of,
    beyond_words,
    path,
)
from pubqueue.faces.rest.profiles import PROFILES
from pubqueue.faces.rest.settings import RestSettings

PROXIES = ("10.0.0.0/24", "127.0.0.1/32")
NETWORKS = networks("rest.proxies", PROXIES)
PROXY, OTHER = "10.0.0.7", "10.0.1.7"


@pytest.mark.parametrize(
    ("peer", "headers", "base"),
    [
        (OTHER, {}, "http://q.example"),
        (OTHER, {"X-Forwarded-Host": "evil.example"}, "http://q.example"),
        (OTHER, {"Forwarded": "host=evil.example"}, "http://q.example"),
        (PROXY, {}, "http://q.example"),
        (PROXY, {"Forwarded": "for=1.2.3.4;proto=https;host=h.example"}, "https://h.example"),
        (PROXY, {"Forwarded": 'host=evil.example, HOST="h.example:8443"'}, "http://h.example:8443"),
        (PROXY, {"Forwarded": 'for="[::1]";host=h.example , for=_x'}, "http://q.example"),
        (
            PROXY,
            {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "e, h.example"},
            "https://h.example",
        ),
        (PROXY, {"X-Forwarded-Prefix": "/queue/"}, "http://q.example/queue"),
        ("::ffff:10.0.0.7", {"X-Forwarded-Proto": "https"}, "https://q.example"),
    ],
)
def test_a_base_is_that_of_the_last_proxy_that_is_trusted(peer, headers, base):  # W09
    given = CIMultiDict({"Host": "q.example", **headers})
    assert base_of(given, peer, RestSettings(proxies=PROXIES), is_private=False) == base


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "a b"},
        {"Host": "a>;rel=x"},
        {"Host": ""},
        {"Host": "["},
        {"Host": "[::1]]:80"},
        {"Host": "a:port"},
        {},
        {"Host": "a", "X-Forwarded-Host": "a/b"},
        {"Host": "a", "X-Forwarded-Proto": "javascript"},
        {"Host": "a", "X-Forwarded-Prefix": "/a>"},
        {"Host": "a", "X-Forwarded-Prefix": "//evil"},
        {"Host": "a", "Forwarded": "host"},
        {"Host": "a", "Forwarded": 'host="a'},
    ],
)
def test_a_host_that_is_none_is_refused(headers):  # W09
    with pytest.raises(ProblemError) as caught:
        base_of(CIMultiDict(headers), PROXY, RestSettings(proxies=PROXIES), is_private=False)
    assert caught.value.status == 400


def test_a_base_of_the_settings_is_the_only_one():  # W09
    settings = RestSettings(base_url="https://q.example/x/", proxies=PROXIES)
    given = CIMultiDict({"Host": "a b", "X-Forwarded-Host": "h.example"})
    assert base_of(given, PROXY, settings, is_private=False) == "https://q.example/x"


def test_a_connection_with_tls_has_links_with_it():  # W09
    assert (
        base_of(CIMultiDict({"Host": "q"}), OTHER, RestSettings(), is_private=True) == "https://q"
    )


async def test_links_of_an_answer_follow_the_request():  # R35, W09
    async with served(proxies=PROXIES) as rest:
        await rest.make("jobs")
        etl = await rest.as_()
        given = {"Forwarded": "proto=https;host=queue.example.org"}
        found = links(await etl.get("/queues/jobs", headers=given))
        assert found["poller"] == "https://queue.example.org/rest/queues/jobs/consumer"
        assert (await etl.get("/queues/jobs", headers={"Host": "a b"})).status_code == 400


@pytest.mark.parametrize(
    ("peer", "said", "client"),
    [
        (OTHER, "1.2.3.4", OTHER),
        (PROXY, "1.2.3.4", "1.2.3.4"),
        (PROXY, "9.9.9.9, 1.2.3.4", "1.2.3.4"),
        (PROXY, "1.2.3.4, nobody\0", PROXY),
        (PROXY, "somebody", PROXY),
        (PROXY, "", PROXY),
    ],
)
def test_the_client_is_the_one_that_the_proxy_names(peer, said, client):
    assert client_of(peer, CIMultiDict({"X-Forwarded-For": said}), NETWORKS) == client


def test_the_last_field_counts_as_some_proxies_add_one():
    fields = CIMultiDict([("X-Forwarded-For", "9.9.9.9"), ("X-Forwarded-For", "1.2.3.4")])
    assert client_of(PROXY, fields, NETWORKS) == "1.2.3.4"
    given = CIMultiDict(
        [("Host", "q"), ("X-Forwarded-Host", "evil"), ("X-Forwarded-Host", "q.example")]
    )
    settings = RestSettings(proxies=PROXIES)
    assert base_of(given, PROXY, settings, is_private=False) == "http://q.example"
    given = CIMultiDict(
        [("Host", "q"), ("Forwarded", "host=evil"), ("Forwarded", "host=q.example")]
    )
    assert base_of(given, PROXY, settings, is_private=False) == "http://q.example"


@pytest.mark.parametrize(
    ("peer", "settings"), [("192.0.2.1", RestSettings()), (OTHER, RestSettings(proxies=PROXIES))]
)
async def test_credentials_in_plain_text_are_not_accepted_from_afar(peer, settings):
    with pytest.raises(ProblemError) as caught:
        await identify(CIMultiDict(), peer, None, settings, is_private=False)
    assert caught.value.status == 403


def test_names_are_encoded_in_paths_and_links():  # R35
    assert path("queues", "a/b;c ä") == "/queues/a%2Fb%3Bc%20%C3%A4"
    assert (
        f"{Link('next', 'http://h/x', 'text/plain')}"
        == '<http://h/x>; rel="next"; type="text/plain"'
    )


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("<a>; rel=x", [("a", ("x",))]),
        ('<a>;rel="x y";title="a, b", <b>', [("a", ("x", "y")), ("b", ())]),
        ("<a>; REL=X; rel=y,,<b> ; rel = z", [("a", ("x",)), ("b", ("z",))]),
        ('<a>; title="\\"<b>; rel=y"', [("a", ())]),
    ],
)
def test_links_of_publishers_are_read(field, found):
    assert [(one.target, one.rels) for one in links_in([field])] == found


@pytest.mark.parametrize("field", ["a", "<a", "<a> rel=x", "<a>; rel=x <b>", '<a>; rel="x'])
def test_links_that_cannot_be_read_are_refused(field):
    with pytest.raises(ProblemError):
        list(links_in([field]))


# What would be ignored is refused by its name (decision 146).

EACH = [
    pytest.param(made("/x"), route, id=f"{name} {route.method} {route.path}")
    for name, made in PROFILES.items()
    for route in made("/x").routes
]


@pytest.mark.parametrize(("profile", "route"), EACH)
def test_each_operation_reads_what_could_change_its_meaning_or_refuses_it(profile, route):  # W18
    words = profile.words[route.method, route.word]
    must = PRECONDITIONS if route.method == "GET" else PRECONDITIONS | OF_CHANGES
    for name in must:
        said = beyond_words(route.method, [name.title()], [], words)
        assert said == (None if name in words.headers else f"the header {name.title()}")
    assert beyond_words(route.method, [], ["odd"], words) == "the parameter odd"
    for name in words.query:
        assert beyond_words(route.method, [], [name], words) is None
        assert beyond_words(route.method, [], [name, name], words) == f"the parameter {name}"


@pytest.mark.parametrize(
    ("method", "publishes", "name", "said"),
    [
        ("POST", False, "Message-Ttl", "the header Message-Ttl"),
        ("POST", True, "Message-Ttl", None),  # those who read messages know it
        ("GET", False, "Message-Ttl", None),
        ("POST", False, "Message-Attempt", None),  # the service alone sets it
        ("GET", False, "If-None-Match", None),  # the whole answer is always right
        ("GET", False, "Range", None),
        ("POST", False, "X-Method-Override", "the header X-Method-Override"),
        ("POST", False, "X-Request-Id", None),
    ],
)
def test_a_header_that_cannot_matter_is_passed_over(method, publishes, name, said):
    words = Words(frozenset(), frozenset(), publishes=publishes)
    assert beyond_words(method, [name], [], words) == said
