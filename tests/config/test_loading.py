"""The configuration as it is read: what outranks what, what is refused and how, and that the secret stays one."""

import ast
import inspect
import os
import pwd
import re
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from config.files import from_file
from msgspec import convert

from pubqueue import cli
from pubqueue.accounts.credentials import Role
from pubqueue.config.alerts import AlertRuleSettings, AlertSettings
from pubqueue.config.loading import ENVIRONMENT, load
from pubqueue.config.settings import (
    AccountLimits,
    LimitSettings,
    NodeSettings,
    ScheduleSettings,
    Settings,
    TransactionSettings,
    UserSettings,
)
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.faces.xmpp.settings import QosSettings
from pubqueue.model.records import MESSAGE_LIMITS as MESSAGES
from pubqueue.model.records import AssuredFrom
from pubqueue.rules.access import AutoCreation, CreationPolicy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "queue.md"
GOOD = {"jid": "queue.example.org", "secret": "geheim"}
SECRET = "correct horse battery staple"


def docstrings(kind):
    """Return the fields of a structure, each with the text under it."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    return {
        node.target.id: isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        for node, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign)
    }


KINDS = [
    *(Settings, NodeSettings, ScheduleSettings, TransactionSettings, LimitSettings),
    *(AccountLimits, UserSettings, QosSettings, AlertSettings, AlertRuleSettings),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_documented(kind):
    found = docstrings(kind)
    assert set(found) == set(kind.__struct_fields__)
    assert all(found.values())


def test_the_example_has_every_key():
    (example,) = [
        part for part in PAGE.read_text().split("```toml\n")[1:] if part.startswith("jid")
    ]
    reported = tomllib.loads(example.partition("```")[0])
    assert set(reported) == set(Settings.__struct_fields__) - {"secret"}
    usual = {key: value for key, value in reported["limits"].items() if key != "accounts"}
    assert convert(usual, LimitSettings) == LimitSettings()
    assert set(reported["limits"]) == set(LimitSettings.__struct_fields__)
    in_files = {"password_file"}  # instead of what the example has
    assert set(reported["user"][0]) == set(UserSettings.__struct_fields__) - in_files
    assert set(reported["node"][0]) == set(NodeSettings.__struct_fields__)
    assert convert(reported["transactions"], TransactionSettings) == TransactionSettings()
    assert convert(reported["qos"], QosSettings).limits() == MESSAGES
    assert set(reported["transactions"]) == set(TransactionSettings.__struct_fields__)


def test_the_example_is_good(tmp_path):
    text = PAGE.read_text().split("```toml\njid")[1].partition("```")[0]
    (tmp_path / "secret").write_text("geheim")
    (tmp_path / "page-token").write_text("l" * 20)
    (tmp_path / "page-admin-token").write_text("c" * 20)
    settings = from_file(tmp_path, "jid" + text.replace("/etc/pubqueue", str(tmp_path)))
    assert settings.node[0].options["x-queueing#lock_timeout"] == 60


ALL_FOR_TLS = {f"PUBQUEUE_STOMP_{key}" for key in ("LISTEN_TLS", "TLS_CERTIFICATE", "TLS_KEY")} | {
    f"PUBQUEUE_REST_{key}" for key in ("TLS_CERTIFICATE", "TLS_KEY")
}
OF_REST = {
    "LISTEN": ("8600", "8600"),
    "REST_STAR": ("/messages", "/messages"),
    "HORNETQ": ("/jms", "/jms"),
    "DUPS_OK": ("false", False),
    "BASE_URL": ("https://q.example/x", "https://q.example/x"),
    "PLAIN_HTTP": ("true", True),
    "PROXIES": ("192.0.2.7, 10.0.0.0/24", ("192.0.2.7", "10.0.0.0/24")),
    "CORS_ORIGINS": ("https://a.example", ("https://a.example",)),
    "NOTHING": ("204", 204),
    "PUSH_TO": ("https://hooks.example/", ("https://hooks.example/",)),
    "PUSH_NETWORKS": ("10.0.0.0/8", ("10.0.0.0/8",)),
}
"""Keys of `[rest]` that are no counts."""
GRPC_TLS = {f"PUBQUEUE_GRPC_{key}" for key in ("TLS_CERTIFICATE", "TLS_KEY", "CLIENT_CA")}
VARIABLES = {
    "PUBQUEUE_JID": ("env.example", "env.example"),
    "PUBQUEUE_SECRET": ("environment", "environment"),
    "PUBQUEUE_SECRET_FILE": ("/dev/null", "/dev/null"),
    "PUBQUEUE_SERVER": ("env:2", "env:2"),
    "PUBQUEUE_HTTP": ("9254", "9254"),
    "PUBQUEUE_HTTP_PROXIES": ("192.0.2.7, 10.0.0.0/24", ("192.0.2.7", "10.0.0.0/24")),
    "PUBQUEUE_HTTP_CERTIFICATE": ("/dev/null", "/dev/null"),
    "PUBQUEUE_HTTP_KEY": ("/dev/null", "/dev/null"),
    "PUBQUEUE_LOCAL_KEY_FILE": ("/k", "/k"),
    "PUBQUEUE_STORE": ("sqlite:/env", "sqlite:/env"),
    "PUBQUEUE_ADMINS": ("a@x, b@x,", ("a@x", "b@x")),
    "PUBQUEUE_NODE_CREATION": ("admins", CreationPolicy.ADMINS),
    "PUBQUEUE_ANONYMOUS_DOMAINS": ("guest.x, anon.x", ("guest.x", "anon.x")),
    "PUBQUEUE_SETTLE_BY_GET": ("false", False),
    "PUBQUEUE_PING_AFTER": ("7.5", 7.5),
    "PUBQUEUE_AUTO_CREATION": ("never", AutoCreation.NEVER),
    "PUBQUEUE_SUBSCRIPTIONS_PER_ACCOUNT": ("9", 9),
    "PUBQUEUE_LOG_LEVEL": ("debug", "debug"),
    "PUBQUEUE_LOG_FORMAT": ("json", "json"),
    "PUBQUEUE_EVENT_LOG_DAYS": ("1.5", 1.5),
    "PUBQUEUE_EVENT_LOG_SIZE": ("17", 17),
    "PUBQUEUE_NODE": (
        '[{"name": "jobs", "queueing": true, "options": {"pubsub#title": "Work", "x-queueing#paused": true}}]',
        (
            NodeSettings(
                "jobs", queueing=True, options={"pubsub#title": "Work", "x-queueing#paused": True}
            ),
        ),
    ),
    "PUBQUEUE_USER": (
        '[{"name": "etl", "roles": ["viewer"]}]',
        (UserSettings("etl", roles=(Role.VIEWER,)),),
    ),
    "PUBQUEUE_SCHEDULE": (
        '[{"name": "nightly", "cron": "0 3 * * *", "node": "jobs", "json": {"a": [1]}}]',
        (ScheduleSettings("nightly", "0 3 * * *", "jobs", json={"a": [1]}),),
    ),
    **{
        f"PUBQUEUE_TRANSACTIONS_{key.upper()}": ("7", 7)
        for key in TransactionSettings.__struct_fields__
    },
    **{f"PUBQUEUE_LIMITS_{key}": ("7", 7) for key in ("NODES", "ITEMS", "BYTES")},
    **{
        f"PUBQUEUE_STOMP_{key}": ("7", 7)
        for key in (
            *("HEART_BEAT", "LOGIN_TIMEOUT", "CONNECTIONS"),
            *("CONNECTIONS_PER_LOGIN", "SUBSCRIPTIONS_PER_CONNECTION"),
        )
    },
    **{f"PUBQUEUE_REST_{key.upper()}": ("7", 7) for key in RestSettings.__struct_fields__},
    **{f"PUBQUEUE_REST_{key}": values for key, values in OF_REST.items()},
    "PUBQUEUE_STOMP_LISTEN": ("61613", "61613"),
    "PUBQUEUE_STOMP_WEB_SOCKET": ("/stomp", "/stomp"),
    "PUBQUEUE_STOMP_ORIGINS": ("https://a.example", ("https://a.example",)),
    "PUBQUEUE_STOMP_LATE_ACK": ("error", "error"),
    "PUBQUEUE_STOMP_HOSTS": ("a, b", ("a", "b")),
    "PUBQUEUE_STOMP_VERSIONS": ('["1.2"]', ("1.2",)),
    **dict.fromkeys(ALL_FOR_TLS, ("61614", "61614")),
    **{f"PUBQUEUE_QOS_{key.upper()}": ("7", 7) for key in QosSettings.__struct_fields__},
    "PUBQUEUE_QOS_ENABLED": ("false", False),
    "PUBQUEUE_QOS_ASSURED_FROM": ("anyone", AssuredFrom.ANYONE),
    "PUBQUEUE_QOS_EVENTS_TO": ("boss@x, eve@x", ("boss@x", "eve@x")),
    "PUBQUEUE_GRPC_LISTEN": ("8085", "8085"),
    "PUBQUEUE_GRPC_JSON": ("8086", "8086"),
    "PUBQUEUE_GRPC_TLS_CERTIFICATE": ("/dev/null", "/dev/null"),
    "PUBQUEUE_GRPC_TLS_KEY": ("/dev/null", "/dev/null"),
    "PUBQUEUE_GRPC_CLIENT_CA": ("/dev/null", "/dev/null"),
    "PUBQUEUE_GRPC_ANONYMOUS": ("dev", "dev"),
    "PUBQUEUE_GRPC_BRIDGE": ("false", False),
    "PUBQUEUE_GRPC_PUSH_TO": ("*:443, 127.0.0.1:*", ("*:443", "127.0.0.1:*")),
    "PUBQUEUE_GRPC_STREAMS": ("7", 7),
    "PUBQUEUE_ALERTS_TO": ("a@x, b@x/c", ("a@x", "b@x/c")),
    "PUBQUEUE_ALERTS_ROOMS": ("ops@rooms.x", ("ops@rooms.x",)),
    "PUBQUEUE_ALERTS_NICK": ("bot", "bot"),
    "PUBQUEUE_ALERTS_WEBHOOKS": ("https://x.example/a", ("https://x.example/a",)),
    "PUBQUEUE_ALERTS_WEBHOOK_NETWORKS": ("10.0.0.0/24", ("10.0.0.0/24",)),
    "PUBQUEUE_ALERTS_WEBHOOK_TIMEOUT": ("7", 7.0),
    "PUBQUEUE_ALERTS_EVERY": ("7", 7.0),
    "PUBQUEUE_ALERTS_OVER_AFTER": ("7", 7.0),
    "PUBQUEUE_ALERTS_DISK_FREE": ("7", 7),
    "PUBQUEUE_ALERTS_QUOTA": ("0.7", 0.7),
    "PUBQUEUE_ALERTS_RULE": ('[{"dead": 7}]', "alerts.rule is set"),
    "PUBQUEUE_GRPC_STREAMS_PER_ACCOUNT": ("7", 7),
    "PUBQUEUE_LIMITS_ACCOUNTS": (
        '{"a@b": {"items": 7}}',
        {"a@b": AccountLimits(items=7)},
    ),
}
NOT_ALONE = {
    "PUBQUEUE_SECRET_FILE": "secret_file /dev/null has no secret",
    **dict.fromkeys(
        ("PUBQUEUE_HTTP_CERTIFICATE", "PUBQUEUE_HTTP_KEY"),
        "http_certificate and http_key belong together",
    ),
    **dict.fromkeys(GRPC_TLS, r"grpc.* tls_key"),
    **dict.fromkeys(ALL_FOR_TLS, "tls_certificate and tls_key belong together"),
    "PUBQUEUE_STOMP_WEB_SOCKET": r"stomp\.web_socket needs http",
    "PUBQUEUE_ALERTS_RULE": r"alerts\.rule is set, and there is no target",
}
"""What is said of keys that need others, or a better value than /dev/null."""


def from_environment(name):
    """Return the value of the key that is a variable, or what is said of it."""
    given = {"PUBQUEUE_JID": "q.example", "PUBQUEUE_SECRET": "s", name: VARIABLES[name][0]}
    if name == "PUBQUEUE_SECRET_FILE":
        del given["PUBQUEUE_SECRET"]
    if name in {"PUBQUEUE_HTTP_CERTIFICATE", "PUBQUEUE_HTTP_KEY"}:
        given["PUBQUEUE_HTTP"] = "9254"
    try:
        found = load(None, {}, given)
    except ConfigError as error:
        said = str(error)
        return NOT_ALONE[name] if re.search(NOT_ALONE.get(name, "^$"), said) else said
    for step in ENVIRONMENT[name]:
        found = getattr(found, step)
    return found


def test_every_key_can_be_an_environment_variable():
    values = {name: NOT_ALONE.get(name, VARIABLES[name][1]) for name in ENVIRONMENT}
    assert {name: from_environment(name) for name in ENVIRONMENT} == values


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("EVENT_LOG_SIZE", "many", "Expected `int`, got `str`"),
        ("EVENT_LOG_SIZE", "0", "Expected `int` >= 1"),
        ("SETTLE_BY_GET", "perhaps", "Expected `bool`, got `str`"),
        ("NODE", "jobs", "JSON is malformed"),
        (
            "NODE",
            '[{"name": "n", "owner": "a@b"}]',
            "Object contains unknown field `owner` - at `$[0]`; did you mean owners?",
        ),
        ("NODE_CREATION", "me", "Invalid enum value 'me'; one of anyone, local, admins"),
        ("TRANSACTIONS_ITEMS", "-1", "Expected `int` >= 1"),
    ],
)
def test_a_variable_that_does_not_fit_is_one_sentence_with_its_name(name, text, sentence):
    with pytest.raises(ConfigError) as refused:
        load(None, GOOD, {f"PUBQUEUE_{name}": text})
    assert str(refused.value).startswith(f"PUBQUEUE_{name}: {sentence}")


def test_variables_that_are_empty_or_no_key_are_passed_over():
    assert load(None, GOOD, {"PUBQUEUE_PORT": "tcp://1", "PUBQUEUE_STORE": ""}) == load(
        None, GOOD, {}
    )


def test_a_variable_changes_its_key_of_a_table_alone(tmp_path):
    text = 'jid = "q.example"\nsecret = "s"\n[transactions]\nitems = 5\nbytes = 6'
    read = from_file(tmp_path, text, environment={"PUBQUEUE_TRANSACTIONS_ITEMS": "7"})
    assert (read.transactions.items, read.transactions.bytes) == (7, 6)


def test_flags_outrank_the_environment_which_outranks_the_file(tmp_path):
    text = """jid = "file.example"\nsecret = "file"\nserver = "file:1"\nstore = "sqlite:/file" """
    environment = {
        "PUBQUEUE_JID": "envjid.example",
        "PUBQUEUE_SECRET": "envsecret.example",
        "PUBQUEUE_SERVER": "env:2",
        "PUBQUEUE_STORE": "sqlite:/env",
    }
    alone = from_file(tmp_path, text)
    assert (alone.jid, alone.server, alone.store) == ("file.example", "file:1", "sqlite:/file")
    named = from_file(tmp_path, text, environment=environment)
    assert (named.jid, named.secret) == ("envjid.example", "envsecret.example")
    assert (named.server, named.store) == ("env:2", "sqlite:/env")
    flags = {"jid": "flag.example", "server": "flag:3", "store": None, "admins": ()}
    flagged = from_file(tmp_path, text, environment=environment, flags=flags)
    assert (flagged.jid, flagged.server, flagged.store) == ("flag.example", "flag:3", "sqlite:/env")


@pytest.mark.parametrize(
    ("file", "environment", "flag", "expected"),
    [
        ("secret = 'in the file'", None, None, "in the file"),
        ("secret_file = '{0}/one'", None, None, "one"),
        ("secret = 'in the file'", "environment", None, "environment"),
        ("secret_file = '{0}/one'", "environment", None, "environment"),
        ("secret = 'in the file'", None, "{0}/two", "two"),
        ("secret_file = '{0}/one'", "environment", "{0}/two", "two"),
        ("secret_file = '{0}/one'", "", None, "one"),
    ],
)
def test_the_secret_comes_from_the_place_that_outranks(tmp_path, file, environment, flag, expected):
    for name in ("one", "two"):
        (tmp_path / name).write_text(f" {name} \nsecond line")
    settings = from_file(
        tmp_path,
        f"jid = 'q.example'\n{file.format(tmp_path)}",
        environment={} if environment is None else {"PUBQUEUE_SECRET": environment},
        flags={"secret_file": flag and flag.format(tmp_path)},
    )
    assert settings.shared_secret() == expected


def test_names_are_normalised_as_the_server_will():
    settings = load(None, GOOD | {"jid": "Queue.LocalHost", "admins": ("Admin@LocalHost",)}, {})
    assert settings.jid == "queue.localhost"
    assert settings.admins == ("admin@localhost",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "jid is not set"),
        ("jid = ", "is not valid TOML"),
        ("jid = 'q.example'", "the secret is not set"),
        ("jid = 'q.example'\nsecret = ''", "the secret is not set"),
        ("jid = 'q.example'\nsecret = 'a'\nsecret_file = 'b'", "remove one of them"),
        ("jid = 'q.example'\nsecret_file = '/none'", "/none cannot be read"),
        ("jid = 'q.example'\nsecret_file = '/dev/null'", "no secret in its first line"),
        ("jid = 7", "Expected `str`, got `int` - at `$.jid`"),
        *(
            (f"jid = {jid!r}\nsecret = 'a'", "jid must be a domain")
            for jid in ("", " ", "a@b", "a/b", "a b", "." * 300)
        ),
        ("jid = 'q'\nserver = ''", "nothing is served"),
        *(
            (f"jid = 'q'\nsecret = 'a'\nserver = {server!r}", "server must be host:port")
            for server in (
                "host",
                ":5347",
                "host:",
                "host:0",
                "host:65536",
                "host:x",
                "h:٣",
                "h:" + "9" * 5_000,
            )
        ),
        *(
            (f"jid = 'q'\nsecret = 'a'\nstore = {store!r}", "store must be sqlite:///")
            for store in ("", "a.db", "sqlite:", "sqlite://h/a", "postgres://h/a", "sqlite:/a?b=c")
        ),
        *(
            (f"jid = 'q'\nsecret = 'a'\nadmins = [{admin!r}]", "must be a bare JID")
            for admin in ("", "a@b/c", "@b", "a b@c")
        ),
        ("jid = 'q'\nsecret = 'a'\nadmins = 'a@b'", "Expected `array`, got `str` - at `$.admins`"),
        (
            "jid = 'q'\nsecret = 'a'\nnode_creation = 'me'",
            "`$.node_creation`; one of anyone, local, admins",
        ),
        ("jid = 'q'\nsecret = 'a'\nlog_level = 'loud'", "log_level must be debug, info"),
        ("jid = 'q'\nsecret = 'a'\nlog_format = 'xml'", "log_format must be logfmt or json"),
        ("jid = 'q'\nsecret = 'a'\ncolour = 'red'", "unknown field `colour`"),
        ("jid = 'q'\nsecret = 'a'\nstorre = 'red'", "unknown field `storre`; did you mean store?"),
        (
            "jid = 'q'\nsecret = 'a'\n[transactions]\nitem = 4",
            "unknown field `item` - at `$.transactions`; did you mean items?",
        ),
        (
            "jid = 'q'\nsecret = 'a'\n[[schedule]]\nname = 's'\ncron = 'x'\nnode = 'n'\nmissed = 'no'",
            "Invalid enum value 'no' - at `$.schedule[0].missed`; one of all, once, skip",
        ),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\n", "missing required field `name`"),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\nname = ''", "length >= 1"),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\nowner = 'a@b'", "unknown field `owner`"),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\nowners = ['a@b/c']", "a bare JID"),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\npublishers = ['@']", "a bare JID"),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\nmembers = ['@']", "a bare JID"),
        (
            "jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\nmembers = ['a@b']\noutcasts = ['A@b']",
            "node 'n': 'A@b' is an outcast, so it cannot have another affiliation",
        ),
        (
            "jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\n[[node]]\nname = 'n'",
            "is declared twice",
        ),
        ("jid = 'q'\nsecret = 'a'\n[[node]]\nname = 'n'\noptions = { a = [] }", "got `array`"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_exit_code_2(tmp_path, text, sentence, monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "pubqueue.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(path, {}, {})
    assert sentence in str(refused.value)
    for command in ("serve", "check"):
        result = CliRunner().invoke(cli.main, [command, "--config", str(path)])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"pubqueue: {refused.value}\n"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("/none.toml", "No such file"), ("/", "Is a directory"), ("binary", "is not valid TOML")],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, path, sentence):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=sentence):
        load(tmp_path / path, {}, {})


def test_a_file_of_another_user_is_reported_with_owner_and_mode(tmp_path):
    path = tmp_path / "pubqueue.toml"
    path.write_text("jid = 'q.example'\nsecret = 'a'")
    path.chmod(0)
    with as_somebody_else(), pytest.raises(ConfigError) as refused:
        load(path, {}, {})
    there = (
        r".* cannot be read: Permission denied \(/\S+ belongs to \w+:\w+, mode \d{4}; this is \w+\)"
    )
    assert re.fullmatch(there, str(refused.value))


@contextmanager
def as_somebody_else():
    """Have no rights to what is the user's own: root may do everything, so it becomes nobody."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(before)


def test_the_secret_is_the_credential_that_systemd_hands_over(tmp_path, monkeypatch):
    for name, secret in (("secret", "of systemd"), ("usual", "of the package")):
        (tmp_path / name).write_text(secret)
    monkeypatch.setattr("pubqueue.config.loading.USUAL_SECRET", tmp_path / "usual")
    text = "jid = 'q.example'"
    assert from_file(tmp_path, text).shared_secret() == "of the package"
    handed = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert from_file(tmp_path, text, environment=handed).shared_secret() == "of systemd"
    said = {**handed, "PUBQUEUE_SECRET": "of the variable"}
    assert from_file(tmp_path, text, environment=said).shared_secret() == "of the variable"


@pytest.mark.parametrize(
    "text", [f"secret = {SECRET}", f"jid = 7\nsecret = '{SECRET}'", f"secret = ['{SECRET}']"]
)
def test_the_secret_is_not_in_a_sentence_about_the_file(tmp_path, text):
    with pytest.raises(ConfigError) as refused:
        from_file(tmp_path, text)
    assert SECRET not in str(refused.value)
