"""The table `[grpc]`: what is read of it, what is refused, and that nothing of gRPC is imported without it."""

import subprocess
import sys

import pytest
from config.files import of_service
from harness.patience import TIMEOUT

from pubqueue.config.loading import load
from pubqueue.config.users import locals_of
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.grpc.settings import GrpcSettings


def test_without_the_table_grpc_is_not_served(tmp_path):
    settings = of_service(tmp_path, "")
    assert not settings.grpc.is_served
    assert settings.grpc.grpc_addresses() == settings.grpc.json_addresses() == ()
    assert not settings.grpc.json_shares_http(settings)
    assert settings.grpc.grpc_places() == ()


def test_the_table_is_read(tmp_path):
    more = "listen = '8085, [::1]:8085'\nanonymous = 'dev'\nbridge = false\npush_to = ['*.example.org:443']"
    settings = of_service(tmp_path, f"[grpc]\n{more}\nstreams = 7\n")
    assert [place.shown for place in settings.grpc.grpc_addresses()] == [
        "127.0.0.1:8085",
        "[::1]:8085",
    ]
    assert settings.grpc == GrpcSettings(
        listen="8085, [::1]:8085",
        anonymous="dev",
        bridge=False,
        push_to=("*.example.org:443",),
        streams=7,
    )
    assert locals_of(settings) == ("dev@queue.example.org",)


def test_grpc_may_be_all_that_is_served(tmp_path):
    path = tmp_path / "pubqueue.toml"
    path.write_text("jid = 'q'\nserver = ''\n[grpc]\nlisten = '8085'\n")
    assert load(path, {}, {}).grpc.listen == "8085"


def test_json_may_be_all_that_is_served(tmp_path):  # G49
    path = tmp_path / "pubqueue.toml"
    path.write_text("jid = 'q'\nserver = ''\n[grpc]\njson = '8086'\n")
    settings = load(path, {}, {})
    assert settings.grpc.is_served
    assert [place.shown for place in settings.grpc.json_places()] == ["127.0.0.1:8086"]
    assert settings.grpc.grpc_places() == ()


def test_json_shares_the_server_of_the_page_where_the_addresses_are_the_same(tmp_path):  # G49
    settings = of_service(tmp_path, "http = '127.0.0.1:9254'\n[grpc]\njson = '9254'")
    assert settings.grpc.json_shares_http(settings)
    settings = of_service(tmp_path, "http = '9254'\n[grpc]\njson = '9255'")
    assert not settings.grpc.json_shares_http(settings)


@pytest.mark.parametrize(
    "text",
    [
        "http = '*:9254'\nhttp_certificate = 'a'\nhttp_key = 'b'\n[grpc]\njson = '*:9254'",
        "http = '*:9254'\n[grpc]\njson = '*:9255'\ntls_certificate = 'a'\ntls_key = 'b'",
    ],
)
def test_json_is_served_to_others_with_the_certificate_of_its_server(tmp_path, text):  # G40, G49
    assert of_service(tmp_path, text).grpc.is_served


def test_a_certificate_of_another_server_is_not_enough(tmp_path):  # G40, G49
    text = "http = '*:9254'\n[grpc]\njson = '*:9254'\ntls_certificate = 'a'\ntls_key = 'b'"
    with pytest.raises(ConfigError, match=r"grpc.json: .* in plain text"):
        of_service(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("listen = 'nowhere'", "grpc.listen must be"),
        ("json = 'nowhere'", "grpc.json must be"),
        ("json = '*:8086'", "grpc.json: .* in plain text"),
        ("listen = '8085'\njson = '*:8086'\nanonymous = 'dev'", "loopback addresses in json"),
        ("listen = '*:8085'", "in plain text"),
        ("listen = '*:8085'\nanonymous = 'dev'", "strangers"),
        (
            "listen = '192.0.2.1:8085'\nanonymous = 'dev'\ntls_certificate = 'a'\ntls_key = 'b'",
            "strangers",
        ),
        ("listen = '8085'\nanonymous = 'De v'", "grpc.anonymous must be"),
        ("listen = '8085'\ntls_key = 'a'", "belong together"),
        ("listen = '8085'\nclient_ca = 'a'", "needs tls_certificate"),
        ("push_to = ['example.org']", "grpc.push_to must be"),
        ("push_to = ['http://example.org:80']", "grpc.push_to must be"),
        ("nothing = 1", "nothing"),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path, text, why):  # G40
    with pytest.raises(ConfigError, match=why):
        of_service(tmp_path, f"[grpc]\n{text}\n")


def test_files_that_cannot_be_read_are_named(tmp_path):
    text = "listen = '*:8085'\ntls_certificate = '/nowhere'\ntls_key = '/nowhere'"
    settings = of_service(tmp_path, f"[grpc]\n{text}\n")
    with pytest.raises(ConfigError, match=r"grpc.tls_.* /nowhere"):
        settings.grpc.grpc_places()
    json = of_service(tmp_path, f"[grpc]\n{text.replace('listen', 'json')}\n")
    with pytest.raises(ConfigError, match=r"grpc.tls_.* /nowhere"):
        json.grpc.json_places()


def test_the_projects_of_a_user_are_read(tmp_path):
    settings = of_service(tmp_path, "[[user]]\nname = 'etl'\nprojects = ['shop']\n")
    assert settings.user[0].projects == ("shop",)


def test_without_the_table_nothing_of_grpc_is_imported_but_its_settings():  # G52
    look = (
        "import sys, pubqueue.cli, pubqueue.wiring.serving;"
        "print(*[m for m in sys.modules if m.split('.')[0] in {'grpc', 'google'} or 'faces.grpc' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-Ic", look], capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    assert done.stdout.split() == ["pubqueue.faces.grpc", "pubqueue.faces.grpc.settings"]
