"""Where the queue is: arguments, URL, environment."""

import pytest

from pubqueue import BlockingPublisher
from pubqueue.config.loading import variables
from pubqueue.config.settings import Settings
from pubqueue_xeps import connection as old
from pubqueue_xeps.client import connection as module
from pubqueue_xeps.client.connection import (
    Connect,
    Connection,
    PartialConnection,
    connect,
    connection,
    read_url,
)
from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.services import Services
from pubqueue_xeps.worker.worker import Worker

URL = "xmpp://bot@example.org/queue.example.org"
FULL = f"{URL}?host=127.0.0.1&port=5299&tls=off&ca_file=/etc/ca.pem&node=jobs"
PASSWORD = {"PUBQUEUE_PASSWORD": "secret"}


def found(given=None, url=None, **environment):
    return connection(given or PartialConnection(), role="worker", url=url, environment=environment)


def test_the_environment_is_enough():
    made = found(PUBQUEUE_URL=FULL, **PASSWORD)
    assert made.jid.startswith("bot@example.org/worker-")
    assert made.account == "bot@example.org"
    assert made == Connection(
        jid=made.jid,
        password="secret",
        services=Services(("queue.example.org",)),
        nodes=("jobs",),
        host="127.0.0.1",
        port=5299,
        tls="off",
        ca_file="/etc/ca.pem",
    )


def test_what_a_short_url_leaves_open_has_defaults():
    made = found(url=URL, **PASSWORD)
    assert (made.nodes, made.host, made.port, made.tls) == ((), None, 5222, "required")


def test_each_run_has_a_resource_of_its_own_unless_one_is_given():
    assert found(url=URL, **PASSWORD).jid != found(url=URL, **PASSWORD).jid
    named = found(PartialConnection(jid="bot@example.org/one"), URL, **PASSWORD)
    assert named.jid == "bot@example.org/one"


def test_arguments_outrank_the_url_and_the_url_the_environment():
    given = PartialConnection(nodes=("mine",), port=1, password="other")
    made = found(given, URL + "?node=jobs&port=2", PUBQUEUE_URL="nonsense", **PASSWORD)
    assert (made.nodes, made.port, made.password) == (("mine",), 1, "other")


def test_with_account_and_service_given_the_environments_url_is_not_looked_at():
    given = PartialConnection(jid="etl@example.com", service="queue.example.com")
    made = found(given, PUBQUEUE_URL=FULL, **PASSWORD)
    assert (made.account, made.host, made.nodes) == ("etl@example.com", None, ())


def test_the_password_may_be_in_a_file(tmp_path):
    path = tmp_path / "password"
    path.write_text("from a file\n\n")
    assert found(url=URL, PUBQUEUE_PASSWORD_FILE=str(path)).password == "from a file"
    assert found(url=URL, PUBQUEUE_PASSWORD_FILE=str(path), **PASSWORD).password == "secret"


def sentence(*arguments, **environment):
    with pytest.raises(ConfigurationError) as caught:
        found(*arguments, **environment)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_a_password_in_a_url_is_refused_and_not_repeated():
    for url in ("xmpp://bot:hidden@example.org/q.example.org", f"{URL}?password=hidden"):
        assert sentence(PUBQUEUE_URL=url) == (
            "PUBQUEUE_URL has a password in it; put it into PUBQUEUE_PASSWORD or PUBQUEUE_PASSWORD_FILE,"
            " for URLs end up in logs."
        )


def test_the_password_is_in_no_representation():
    assert "secret" not in repr(found(url=URL, **PASSWORD)) + repr(
        PartialConnection(password="secret")
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("bot@example.org", "The URL is not of the form xmpp://bot@example.org/queue.example.org."),
        (
            "xmpp://example.org/queue",
            "The URL is not of the form xmpp://bot@example.org/queue.example.org.",
        ),
        (
            "xmpp://bot@example.org",
            "The URL is not of the form xmpp://bot@example.org/queue.example.org.",
        ),
        (
            "amqp://bot@example.org/q",
            "The URL is not of the form xmpp://bot@example.org/queue.example.org.",
        ),
        (
            "xmpp://bot@example.org:5222/q",
            "The URL has a port behind the domain; write ?port= at its end.",
        ),
        (f"{URL}?port=0", "The URL has port='0'; it takes a number from 1 to 65535."),
        (f"{URL}?port=a", "The URL has port='a'; it takes a number from 1 to 65535."),
        (f"{URL}?tls=no", "The URL has tls='no'; it takes one of required, direct, off."),
        (f"{URL}?port=1&port=2", "The URL has 'port' more than once."),
        (f"{URL}?queue=jobs", "The URL has 'queue', which means nothing there."),
        (f"{URL}?jobs", "The URL cannot be read; xmpp://bot@example.org/queue.example.org is one."),
        ("xmpp://[/", "The URL cannot be read; xmpp://bot@example.org/queue.example.org is one."),
        ("xmpp://b@t@example.org/q", "'b@t@example.org' is not a JID."),
    ],
)
def test_a_url_that_means_nothing_is_one_sentence(url, said):
    assert sentence(None, url, **PASSWORD) == said


def test_what_is_missing_is_one_sentence(tmp_path):
    absent, empty = str(tmp_path / "absent"), tmp_path / "empty"
    empty.touch()
    assert sentence() == (
        "No account is given: give jid= or a URL (url=, --url), or set PUBQUEUE_URL, such as xmpp://bot@example.org/queue.example.org."
    )
    assert sentence(PartialConnection(jid="a@b")).startswith(
        "No service is given: give service= or"
    )
    assert sentence(PUBQUEUE_URL=URL) == (
        "There is no password for bot@example.org: give password=, or set PUBQUEUE_PASSWORD or PUBQUEUE_PASSWORD_FILE."
    )
    assert sentence(PUBQUEUE_URL=URL, PUBQUEUE_PASSWORD_FILE=absent) == (
        f"The file {absent} of PUBQUEUE_PASSWORD_FILE cannot be read: No such file or directory."
    )
    assert sentence(PUBQUEUE_URL=URL, PUBQUEUE_PASSWORD_FILE=str(empty)) == (
        f"The file {empty} of PUBQUEUE_PASSWORD_FILE has no password in its first line."
    )
    assert (
        sentence(PartialConnection(jid="a@@b", service="q"), **PASSWORD) == "'a@@b' is not a JID."
    )


def nodes_of(worker):
    return tuple(worker._windows)


def account_of(publisher):
    return publisher._connection.account


def test_workers_and_publishers_take_the_environment(monkeypatch):
    monkeypatch.setenv("PUBQUEUE_URL", FULL)
    monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
    assert nodes_of(Worker()) == ("jobs",)
    assert nodes_of(Worker(node="mine")) == ("mine",)
    assert nodes_of(Worker(node=["a", "b"])) == ("a", "b")
    assert account_of(Publisher()) == "bot@example.org"
    other = Publisher.from_url("xmpp://etl@example.org/queue.example.org")
    assert account_of(other) == "etl@example.org"
    monkeypatch.setenv("PUBQUEUE_URL", URL)
    with pytest.raises(ConfigurationError, match="needs the name of a node"):
        Worker()


def test_no_variable_is_also_one_of_the_service():
    """Both programs may run in one environment; the service takes none of these for a setting of its own."""
    service = {name for name, _, _ in variables(Settings)}
    assert service.isdisjoint({module.URL, module.PASSWORD, module.PASSWORD_FILE})
    assert not any(name.startswith(f"{module.URL}_") for name in service)


def test_what_stands_escaped_in_a_url_is_read():
    assert read_url("xmpp://b%C3%A4r@example.org/q.example.org").jid == "bär@example.org"


def test_a_url_may_name_several_nodes():
    made = found(PartialConnection(), URL + "?node=jobs&node=more", **PASSWORD)
    assert made.nodes == ("jobs", "more")


@pytest.mark.parametrize("kind", [Publisher, BlockingPublisher, Worker])
def test_a_misspelled_argument_is_refused_by_its_name(kind):
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'hots'"):
        kind(url=URL, password="secret", hots="127.0.0.1")


def test_an_argument_of_connect_reaches_the_connection():
    where: Connect = {
        "services": ["q.example.com"],
        "host": "127.0.0.1",
        "port": 5299,
        "tls": "off",
        "ca_file": "/etc/ca.pem",
    }
    assert set(where) | {"url", "service"} == set(Connect.__annotations__)
    made = connect("worker", "bot@example.com/one", "secret", where, nodes=("jobs",))
    assert made == Connection(
        jid="bot@example.com/one",
        password="secret",
        nodes=("jobs",),
        **{**where, "services": Services(("q.example.com",))},
    )
    assert connect("worker", None, "secret", {"url": FULL}).service == "queue.example.org"


def test_the_documented_names_stay():
    assert old.Given is PartialConnection
    assert old.connection is connection


@pytest.mark.parametrize(
    ("given", "url", "argument", "source"),
    [
        (PartialConnection(), None, "jid", None),
        (PartialConnection(jid="a@b"), None, "service", None),
        (PartialConnection(jid="a@@b", service="q", password="x"), None, "jid", None),
        (PartialConnection(), URL, "password", None),
        (PartialConnection(), "http://x", None, "url"),
        (PartialConnection(), f"{URL}?port=x", "port", "url"),
        (PartialConnection(), f"{URL}?tls=no", "tls", "url"),
        (PartialConnection(), f"{URL}?hots=x", "hots", "url"),
        (PartialConnection(), f"{URL}?host=x&host=y", "host", "url"),
    ],
)
def test_an_error_keeps_the_argument_and_where_it_was_read(given, url, argument, source):
    with pytest.raises(ConfigurationError) as raised:
        found(given, url)
    assert (raised.value.argument, raised.value.source) == (argument, source)


def test_an_error_of_the_environment_names_its_variable():
    with pytest.raises(ConfigurationError) as raised:
        found(PUBQUEUE_URL=f"{URL}?port=x", **PASSWORD)
    assert (raised.value.argument, raised.value.source) == ("port", "PUBQUEUE_URL")
    with pytest.raises(ConfigurationError) as raised:
        found(PUBQUEUE_URL=URL, PUBQUEUE_PASSWORD_FILE="/nowhere")
    assert (raised.value.argument, raised.value.source) == ("password", "PUBQUEUE_PASSWORD_FILE")


def test_several_services_stand_in_place_of_that_of_the_url():
    made = found(
        PUBQUEUE_URL=FULL,
        PUBQUEUE_SERVICES="Queue-A.example.org, queue-b.example.org=draining",
        **PASSWORD,
    )
    assert made.services == Services(
        ("queue-a.example.org", "queue-b.example.org"), frozenset({"queue-b.example.org"})
    )
    assert (made.account, made.port) == ("bot@example.org", 5299)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (PartialConnection(services=["b.example.org"]), None),
        (PartialConnection(service="b.example.org"), None),
        (None, "xmpp://bot@example.org/b.example.org"),
    ],
    ids=["services=", "service=", "url="],
)
def test_arguments_outrank_the_list_of_the_environment(given, url):
    made = found(given, url, PUBQUEUE_URL=URL, PUBQUEUE_SERVICES="c.example.org", **PASSWORD)
    assert made.services == Services(("b.example.org",))
    assert made.service == "b.example.org"


def test_what_takes_one_service_chooses_none_of_several():
    made = found(PUBQUEUE_URL=URL, PUBQUEUE_SERVICES="a.example.org,b.example.org", **PASSWORD)
    with pytest.raises(ConfigurationError, match="2 services are given, and this is for one"):
        _ = made.service


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"services": []}, "The list of services is empty"),
        ({"services": "a.example.org"}, "takes a list of addresses"),
        (
            {"services": ["a.example.org", "A.example.org"]},
            "a.example.org is in the list more than once",
        ),
        ({"services": ["a.example.org", ""]}, "A service of the list is empty"),
        ({"services": ["a.example.org=draining"]}, "No service of the list takes groups"),
        (
            {"services": ["a.example.org=away", "b"]},
            "'a.example.org=away' has a mark that is neither",
        ),
        ({"services": ["a b", "@"]}, "is not a JID"),
        ({"services": ["a"], "service": "b"}, "contradict each other"),
    ],
)
def test_a_list_that_cannot_be_used_is_one_sentence(given, says):
    with pytest.raises(ConfigurationError, match=says):
        found(PartialConnection(jid="bot@example.org", **given), **PASSWORD)


def test_a_mark_is_no_part_of_a_single_service():
    with pytest.raises(ConfigurationError, match="is not a JID"):
        found(PartialConnection(jid="bot@example.org", service="a=draining@"), **PASSWORD)
