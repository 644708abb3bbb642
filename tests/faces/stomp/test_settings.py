"""The table `[stomp]`: what is read of it, what is refused, and that nothing of STOMP is imported without it."""

import subprocess
import sys

import pytest
from config.files import of_service
from harness.patience import TIMEOUT

from pubqueue.config.loading import load
from pubqueue.faces.checks import ConfigError


def test_without_the_table_stomp_is_not_served(tmp_path):
    settings = of_service(tmp_path, "")
    assert not settings.stomp.is_served
    assert settings.stomp.places() == ()


def test_the_table_is_read(tmp_path):
    more = "listen = '61613, [::1]:61613'\nheart_beat = 2.5\nversions = ['1.2']\nlate_ack = 'error'\nhosts = ['a']"
    settings = of_service(tmp_path, f"[stomp]\n{more}\nconnections = 7\nlogin_timeout = 3\n")
    assert [place.shown for place in settings.stomp.places()] == ["127.0.0.1:61613", "[::1]:61613"]
    stomp, bounds = settings.stomp, settings.stomp.bounds()
    assert [one.name for one in stomp.spoken] == ["1.2"]
    assert (stomp.beat, stomp.late_is_error, stomp.hosts) == (2500, True, ("a",))
    assert (bounds.connections, bounds.per_user, bounds.login) == (7, 100, 3)


def test_stomp_may_be_all_that_is_served(tmp_path):
    path = tmp_path / "pubqueue.toml"
    path.write_text("jid = 'q'\nserver = ''\n[stomp]\nlisten = '61613'\n")
    assert load(path, {}, {}).stomp.is_served


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("listen = '0.0.0.0:61613'", "plain text"),
        ("listen = '*:61613'", "plain text"),
        ("listen = 'nowhere'", "stomp.listen must be"),
        ("listen_tls = '*:61614'", "belong together"),
        ("tls_key = 'a.pem'", "belong together"),
        ("listen = '61613'\nversions = []", "at least one version"),
        ("listen = '61613'\nversions = ['2.0']", "versions"),
        ("domain = 'stomp.example.org'", "domain"),
        ("heart_beat = 0", "heart_beat"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        of_service(tmp_path, f"[stomp]\n{text}\n")


def test_a_certificate_that_cannot_be_read_is_named(tmp_path):
    text = "listen_tls = '*:0'\ntls_certificate = '/nowhere.pem'\ntls_key = '/nowhere.key'"
    settings = of_service(tmp_path, f"[stomp]\n{text}\n")
    with pytest.raises(ConfigError, match=r"stomp.tls_certificate .*nowhere"):
        settings.stomp.places()


def test_without_the_table_nothing_of_stomp_is_imported_but_its_settings():
    look = "import sys, pubqueue.cli, pubqueue.wiring.serving; print(*[m for m in sys.modules if 'faces.stomp' in m])"
    done = subprocess.run([sys.executable, "-I", "-c", look], capture_output=True, text=True, timeout=TIMEOUT, check=True)  # fmt: skip
    assert done.stdout.split() == [
        "pubqueue.faces.stomp",
        "pubqueue.faces.stomp.codec",
        "pubqueue.faces.stomp.settings",
    ]
