"""The users of the configuration: what is read, what is refused, and what a reload does to those who are logged in."""

import asyncio
from contextlib import nullcontext
from hashlib import sha256

import pytest
from harness.batches.toy_face import LineFace
from harness.patience import TIMEOUT
from msgspec.structs import replace
from rich.pretty import pretty_repr
from structlog.testing import capture_logs

from pubqueue.accounts import credentials
from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Bearer, Plain, Role
from pubqueue.config.loading import load
from pubqueue.config.reloading import Reloader
from pubqueue.config.settings import Settings, UserSettings
from pubqueue.config.users import (
    accounts_of,
    locals_of,
    locked_out,
    summary,
    users_of,
)
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.table import Row
from pubqueue.model.entities import Jid
from pubqueue.wiring.serving import serve

START = "jid = 'queue.example.org'\nsecret = 'a'\n"
RIGHT, TOKEN = "correct horse", "a-token-of-twenty-two-c"
PASSWORD = credentials.make(RIGHT).text
DIGEST = sha256(TOKEN.encode()).hexdigest()
USER = f"[[user]]\nname = 'etl'\npassword = '{PASSWORD}'\n"


def from_file(folder, text):
    path = folder / "pubqueue.toml"
    path.write_text(START + text)
    return load(path, {}, {})


def test_a_user_is_read(tmp_path):
    more = f"""
    token_sha256 = ['{DIGEST.upper()}']
    certificate = 'O=example, CN=etl'
    roles = ['viewer', 'admin']
    local = true
    faces = ['page']
    """
    settings = from_file(tmp_path, USER + more)
    (user,) = users_of(settings)
    assert user.password.matches(RIGHT)
    assert user.tokens == {DIGEST}
    assert user.certificate == (("commonName", "etl"), ("organizationName", "example"))
    assert user.roles == {Role.VIEWER, Role.ADMIN}
    assert (user.local, user.faces) == (True, {"page"})
    assert settings.account_of("etl") == "etl@queue.example.org"
    assert summary([user]) == "1, 1 with a password, 1 with a token, 1 with a certificate"


def test_a_password_may_stand_in_a_file(tmp_path):
    (tmp_path / "etl").write_text(f"{PASSWORD}\nsecond line\n")
    (user,) = users_of(
        from_file(tmp_path, f"[[user]]\nname = 'etl'\npassword_file = '{tmp_path}/etl'")
    )
    assert user.password.matches(RIGHT)


def test_an_address_that_cannot_log_in_is_reported(tmp_path):
    users = users_of(from_file(tmp_path, USER + "[[user]]\nname = 'bare'"))
    (sentence,) = locked_out(users)
    assert "user 'bare' has no password" in sentence


def test_a_user_with_the_role_admin_is_an_administrator_and_a_local_one_is_local(tmp_path):
    text = "admins = ['boss@example.org']\n" + USER + "roles = ['admin']\nlocal = true"
    settings = from_file(tmp_path, text)
    assert settings.administrators() == ("boss@example.org", "etl@queue.example.org")
    assert locals_of(settings) == ("etl@queue.example.org",)
    principals = accounts_of(settings).principals
    etl = principals.of(Jid("etl@queue.example.org/line.1.1"))
    assert (etl.admin, etl.local) == (True, True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        *(
            (f"[[user]]\nname = '{name}'", "matching regex")
            for name in ("", "Etl", "a b", "a@b", "x" * 65, "ä")
        ),
        ("[[user]]\n", "missing required field `name`"),
        (
            USER + "pasword = 'x'",
            "unknown field `pasword` - at `$.user[0]`; did you mean password?",
        ),
        (USER + "roles = ['root']", "Invalid enum value 'root' - at `$.user[0].roles[0]`; one of"),
        ("[[user]]\nname = 'etl'\npassword = 'geheim'", "user 'etl': password: must be a scrypt"),
        (USER + "password_file = '/none'", "user 'etl': password and password_file are both set"),
        ("[[user]]\nname = 'a'\npassword_file = '/none'", "password_file /none cannot be read"),
        ("[[user]]\nname = 'a'\npassword_file = '/dev/null'", "password_file /dev/null: must be"),
        (USER + "token_sha256 = ['geheim']", "user 'etl': token_sha256 has digests of tokens"),
        (USER + "certificate = 'etl'", "user 'etl': certificate must be the subject"),
        (
            USER + "faces = ['pages']",
            "user 'etl': faces has 'pages'; one of page, stomp, grpc, rest; did you mean page?",
        ),
        (USER + USER, "user 'etl' is declared twice"),
        *(
            (f"[[user]]\nname = 'a'\n{same}\n[[user]]\nname = 'b'\n{same}", f"have the same {key}")
            for key, same in (
                ("token_sha256", f"token_sha256 = ['{DIGEST}']"),
                ("certificate", "certificate = 'CN=a'"),
            )
        ),
    ],
)
def test_what_cannot_be_a_user_is_one_sentence_without_a_secret(tmp_path, text, sentence):
    with pytest.raises(ConfigError) as refused:
        from_file(tmp_path, text)
    assert sentence in str(refused.value)
    assert refused.value.key.startswith(("user", "password_file"))
    assert "geheim" not in str(vars(refused.value)) + str(refused.value)


def test_passwords_and_digests_are_not_shown(tmp_path):
    settings = from_file(tmp_path, f"{USER}token_sha256 = ['{DIGEST}']")
    for shown in (repr(settings), pretty_repr(settings), repr(settings.user)):
        assert "etl" in shown
        assert PASSWORD not in shown
        assert DIGEST not in shown


@pytest.mark.parametrize(
    ("http", "more", "fits"),
    [
        ("127.0.0.1:9254", "", True),
        ("9254", "", True),
        ("[::1]:9254", "", True),
        ("localhost:9254", "", True),
        ("0.0.0.0:9254", "", False),
        ("[::]:9254", "", False),
        ("queue.example.org:9254", "", False),
        ("127.0.0.1:9254, [::1]:9254", "", True),
        ("127.0.0.1:9254, 192.0.2.1:9254", "", False),
        ("*:9254", "", False),
        ("192.0.2.1:9254", "http_proxies = ['192.0.2.7']", True),
        ("192.0.2.1:9254", "http_certificate = 'c.pem'\nhttp_key = 'k.pem'", True),
        ("", "", True),
    ],
)
def test_users_log_in_in_plain_text_on_this_host_or_through_a_named_proxy(
    tmp_path, http, more, fits
):
    text = f"http = '{http}'\n{more}\n{USER}"
    from_file(tmp_path, text)  # as no user may log in to the page, there is nothing to overhear
    from_file(tmp_path, f"{text}roles = ['viewer']\nfaces = []")
    with nullcontext() if fits else pytest.raises(ConfigError, match="without TLS") as refused:
        from_file(tmp_path, f"{text}roles = ['viewer']")
    assert fits or (refused.value.key, refused.value.value) == ("http", http)


@pytest.mark.parametrize("proxies", ["['proxy.example.org']", "['10.0.0.1/8']", "['']"])
def test_a_proxy_is_an_address_or_a_network(tmp_path, proxies):
    with pytest.raises(ConfigError, match="http_proxies must be IP addresses or networks"):
        from_file(tmp_path, f"http_proxies = {proxies}")


async def prove(accounts, given, face="line"):
    async with asyncio.timeout(TIMEOUT):
        return await accounts.prove(given, face=face, peer="192.0.2.1")


async def test_a_reload_adopts_users_and_calls_observers(monkeypatch):
    found, ready, taken = [], asyncio.Event(), asyncio.Event()

    def made(broker, _settings, accounts, on_ready):
        found.append(accounts)
        return LineFace(broker, on_ready)

    monkeypatch.setattr("pubqueue.wiring.faces.FACES", {"line": Row(make=made)})
    etl = UserSettings("etl", password=PASSWORD, token_sha256=(DIGEST,))
    before = Settings(jid="queue.example.org", secret="s", store="memory:", user=(etl,))
    after = replace(before, user=(UserSettings("etl", password=PASSWORD, roles=(Role.ADMIN,)),))
    stop, asked = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(before, stop=stop, on_ready=ready.set, reloader=Reloader(asked, lambda: after))
    )
    async with asyncio.timeout(TIMEOUT):
        await ready.wait()
        (accounts,) = found
        accounts.watch(taken.set)
        by_password = await prove(accounts, Plain("etl", RIGHT))
        by_token = await prove(accounts, Bearer(TOKEN))
        assert isinstance(by_password, Proven)
        assert accounts.holds(by_token)
        assert not accounts.principals.of(by_token.account).admin
        with capture_logs() as logs:
            asked.set()
            await taken.wait()
        assert accounts.holds(by_password)
        assert not accounts.holds(by_token)
        assert accounts.principals.of(by_password.account).admin
        assert {"event": "config.read", "taken_over": "user", "log_level": "info"} in logs
        stop.set()
        await serving
