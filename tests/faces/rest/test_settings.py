"""The table `[rest]`: what is read of it, what is refused, and that nothing of REST is imported without it."""

import subprocess
import sys

import pytest
from config.files import of_service
from harness.patience import TIMEOUT

from pubqueue.config.loading import load
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.rest.profiles import profiles_of


def test_without_the_table_rest_is_not_served(tmp_path):
    settings = of_service(tmp_path, "")
    assert not settings.rest.is_served
    assert settings.rest.places() == ()
    assert not settings.rest.shares_http(settings)


def test_the_table_is_read(tmp_path):
    more = "listen = '8600, [::1]:8600'\nnothing = 204\nonce_for = 60\nproxies = ['10.0.0.1']\nmax_connections = 8"
    settings = of_service(tmp_path, f"[rest]\n{more}\nrest_star = '/a/b'\nwrite_timeout = 3\n")
    assert [place.shown for place in settings.rest.places()] == ["127.0.0.1:8600", "[::1]:8600"]
    rest, bounds = settings.rest, settings.rest.bounds()
    assert (rest.nothing, rest.once_for) == (204, 60)
    assert [str(one) for one in rest.trusted] == ["10.0.0.1/32"]
    assert (bounds.connections, bounds.per_peer, bounds.unread, bounds.login) == (8, 2, 3, 0)
    assert "/a/b" in [one.prefix for one in profiles_of(rest)]


def test_rest_may_be_all_that_is_served(tmp_path):
    path = tmp_path / "pubqueue.toml"
    path.write_text("jid = 'q'\nserver = ''\n[rest]\nlisten = '8600'\n")
    assert load(path, {}, {}).rest.is_served


def test_it_shares_the_server_of_the_page_where_the_addresses_are_the_same(tmp_path):
    settings = of_service(tmp_path, "http = '127.0.0.1:9254'\n[rest]\nlisten = '9254'")
    assert settings.rest.shares_http(settings)
    settings = of_service(tmp_path, "http = '9254'\n[rest]\nlisten = '9255'")
    assert not settings.rest.shares_http(settings)


def test_a_profile_may_be_off(tmp_path):
    settings = of_service(tmp_path, "[rest]\nlisten = '8600'\nrest_star = 'off'")
    assert "rest-star" not in settings.rest.prefixes()


@pytest.mark.parametrize(
    "more", ["proxies = ['10.0.0.0/24']", "plain_http = true", "tls_certificate='a'\ntls_key='b'"]
)
def test_it_may_be_served_to_others_where_passwords_are_safe_or_that_is_wanted(tmp_path, more):
    assert of_service(tmp_path, f"[rest]\nlisten = '*:8600'\n{more}").rest.is_served


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listen = '0.0.0.0:8600'", "plain text"),
        ("listen = '*:8600'", "plain text"),
        ("listen = 'nowhere'", "rest.listen must be"),
        ("tls_key = 'a.pem'", "belong together"),
        ("proxies = ['proxy.example']", "rest.proxies must be"),
        ("rest_star = 'rest'", "rest.rest_star must be a path"),
        ("rest_star = '/'", "rest.rest_star must be a path"),
        ("rest_star = '/a b'", "rest.rest_star must be a path"),
        ("base_url = 'queue.example.org'", "rest.base_url must be a URL"),
        ("base_url = 'ftp://queue.example.org'", "rest.base_url must be a URL"),
        ("base_url = 'https://a:b@queue.example.org'", "rest.base_url must be a URL"),
        ("cors_origins = ['*']", "rest.cors_origins must be a URL"),
        ("cors_origins = ['https://a.example/x']", "rest.cors_origins must be a URL"),
        ("nothing = 200", "nothing"),
        ("once_for = 0", "once_for"),
        ("max_body = 100000000", "max_body"),
        ("domain = 'a'", "domain"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        of_service(tmp_path, f"[rest]\n{text}\n")


def test_on_the_server_of_the_page_the_certificate_is_that_of_the_page(tmp_path):
    text = "http = '9254'\n[rest]\nlisten = '9254'\ntls_certificate = 'a'\ntls_key = 'b'"
    with pytest.raises(ConfigError, match="http_certificate"):
        of_service(tmp_path, text)


def test_a_certificate_that_cannot_be_read_is_named(tmp_path):
    text = "listen = '*:0'\ntls_certificate = '/nowhere.pem'\ntls_key = '/nowhere.key'"
    settings = of_service(tmp_path, f"[rest]\n{text}\n")
    with pytest.raises(ConfigError, match=r"rest.tls_certificate .*nowhere"):
        settings.rest.places()


def test_without_the_table_nothing_of_rest_is_imported_but_its_settings():
    look = "import sys, pubqueue.cli, pubqueue.wiring.serving; print(*[m for m in sys.modules if 'faces.rest' in m])"
    done = subprocess.run([sys.executable, "-I", "-c", look], capture_output=True, text=True, timeout=TIMEOUT, check=True)  # fmt: skip
    assert done.stdout.split() == ["pubqueue.faces.rest", "pubqueue.faces.rest.settings"]
