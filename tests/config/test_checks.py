"""Where users may log in to the page, and through which proxies."""

from contextlib import nullcontext

import pytest

from pubqueue.accounts import credentials
from pubqueue.config.loading import load
from pubqueue.faces.checks import ConfigError

START = "jid = 'queue.example.org'\nsecret = 'a'\n"
RIGHT, TOKEN = "correct horse", "a-token-of-twenty-two-c"
PASSWORD = credentials.make(RIGHT).text
USER = f"[[user]]\nname = 'etl'\npassword = '{PASSWORD}'\n"


def from_file(folder, text):
    path = folder / "pubqueue.toml"
    path.write_text(START + text)
    return load(path, {}, {})


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
