"""What follows from settings: where the store and the server are, and what the rules take of limits and quotas."""

import sys
from pathlib import Path

import pytest
from config.files import from_file
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict
from rich.pretty import pretty_repr

from pubqueue.config.loading import ENVIRONMENT, load, store_address
from pubqueue.config.settings import Settings
from pubqueue.faces.checks import ConfigError
from pubqueue.model.entities import seconds
from pubqueue.model.records import USUAL, Quota, Quotas
from pubqueue.model.transactions import DEFAULTS
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite.in_memory import MemoryStore

GOOD = {"jid": "queue.example.org", "secret": "geheim"}
SECRET = "correct horse battery staple"


def test_the_secret_is_not_shown():
    settings = load(None, GOOD | {"secret": SECRET}, {})
    shown = [repr(settings), str(settings), pretty_repr(settings), f"{settings}"]
    assert not any(SECRET in text for text in shown)
    assert all("queue.example.org" in text for text in shown)
    assert settings.shared_secret() == SECRET


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("sqlite:///var/lib/q.db", "/var/lib/q.db"),
        ("sqlite:relative/q.db", "relative/q.db"),
        ("sqlite:///with%20space%3F/q.db", "/with space?/q.db"),
    ],
)
def test_where_the_store_is(store, path):
    assert load(None, GOOD | {"store": store}, {}).make_store().path == Path(path)


PASSWORD = "pa55-word"
IN_POSTGRES = f"postgresql://queue:{PASSWORD}@db.example/queues?sslmode=require&password={PASSWORD}"


def test_a_store_may_be_in_postgresql():
    store = load(None, GOOD | {"store": IN_POSTGRES}, {}).make_store()
    given = conninfo_to_dict(store.conninfo)
    facts = {"user": "queue", "host": "db.example", "dbname": "queues", "sslmode": "require"}
    assert given.items() >= facts.items()


def test_the_password_of_a_store_is_not_shown():
    settings = load(None, GOOD | {"store": IN_POSTGRES}, {})
    shown = [repr(settings), str(settings), pretty_repr(settings, max_width=200)]
    assert not any(PASSWORD in text for text in shown)
    assert all("postgresql://queue:...@db.example/queues?sslmode=" in text for text in shown)


@pytest.mark.parametrize(
    "store",
    [
        f"postgres://queue:{PASSWORD}@h/db",
        f"postgresql://queue:{PASSWORD}%@h/db",
        f"postgresql://queue:{PASSWORD}#x@h/db",
        f"postgresql://queue:{PASSWORD}/x@h/db",
        f"postgresql://queue:{PASSWORD}@h:x/db",
        f"postgresql://queue:{PASSWORD}@h/db?colour=red",
        f"postgresql:queue:{PASSWORD}@h",
    ],
)
def test_the_password_of_a_store_is_not_in_a_sentence_about_its_address(store):
    with pytest.raises(ConfigError, match=r"^store") as refused:
        load(None, GOOD | {"store": store}, {})
    assert PASSWORD not in str(refused.value)


def test_without_its_extra_a_store_in_postgresql_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pubqueue.stores.postgres.store", None)
    with pytest.raises(ConfigError, match=r"install pubqueue\[postgres\]$"):
        load(None, GOOD | {"store": "postgresql://queue@h/db"}, {})


def test_a_store_may_be_in_memory():
    assert isinstance(load(None, GOOD | {"store": "memory:"}, {}).make_store(), MemoryStore)


@pytest.mark.parametrize(("server", "address"), [("h:1", ("h", 1)), ("[::1]:5347", ("::1", 5347))])
def test_where_the_server_is(server, address):
    assert load(None, GOOD | {"server": server}, {}).address() == address


def test_the_defaults():
    settings = load(None, GOOD, {})
    assert settings.node_creation is CreationPolicy.LOCAL
    assert (settings.admins, settings.node) == ((), ())
    assert {path[0] for path in ENVIRONMENT.values()} == set(Settings.__struct_fields__)


def test_limits_of_accounts_are_what_the_rules_take(tmp_path):
    assert load(None, GOOD, {}).limits.quotas() == Quotas()
    text = """jid = "queue.example"
        secret = "x"
        [limits]
        nodes = 7
        bytes = 0
        [limits.accounts."Importer@Example.org"]
        items = 9
        [limits.accounts."example.net"]
        nodes = 1"""
    read = from_file(tmp_path, text).limits.quotas()
    usual = Quota(7, USUAL.items, 0)
    assert read.usual == usual
    assert read.of("importer@example.org") == replace(usual, items=9)
    assert read.of("anybody@example.net") == replace(usual, nodes=1)


def test_limits_come_from_variables_as_well():
    named = {
        "PUBQUEUE_LIMITS_ITEMS": "5",
        "PUBQUEUE_LIMITS_ACCOUNTS": '{"a@b": {"bytes": 6}}',
    }
    read = load(None, GOOD, named).limits.quotas()
    assert (read.usual.items, read.of("a@b")) == (5, replace(USUAL, items=5, bytes=6))


@pytest.mark.parametrize(
    "text",
    [
        "[limits]\nnodes = -1",
        "[limits]\nitem = 1",
        "[limits.accounts.'a@b']\nitem = 1",
        "[limits.accounts.'a@b']\nitems = -1",
        "[limits.accounts.'a@b/c']\nitems = 1",
    ],
)
def test_a_limit_that_is_none_refuses_to_start(tmp_path, text):
    with pytest.raises(ConfigError, match=r"limits|bare JID"):
        from_file(tmp_path, f'jid = "queue.example"\nsecret = "x"\n{text}\n')


def test_quotas_of_transactions_are_what_the_rules_take(tmp_path):
    assert load(None, GOOD, {}).transactions.limits() == DEFAULTS
    text = 'jid = "queue.example"\nsecret = "x"\n[transactions]\nitems = 5\nstaged_for = 60\n'
    limits = from_file(tmp_path, text).transactions.limits()
    assert limits == replace(DEFAULTS, items=5, staged_for=seconds(60))


@pytest.mark.parametrize("line", ["items = 0", "staged_for = -1", "bytes = 1.5", "rows = 3"])
def test_a_quota_that_is_none_refuses_to_start(tmp_path, line):
    text = f'jid = "queue.example"\nsecret = "x"\n[transactions]\n{line}\n'
    with pytest.raises(ConfigError, match="transactions"):
        from_file(tmp_path, text)


def test_the_address_of_the_store_has_the_default_of_the_setting(tmp_path):
    """As the Debian package's file has it, where every line is commented out."""
    path = tmp_path / "pubqueue.toml"
    path.write_text("#store = 'sqlite:///elsewhere'\n")
    assert store_address(path, None, {}) == load(None, GOOD, {}).store
    assert store_address(None, None, {}) == "sqlite:///var/lib/pubqueue/pubqueue.db"
