"""Where users may log in to the page, and through which proxies."""

from contextlib import nullcontext

import pytest
from config.files import USER, of_service

from pubqueue.faces.checks import ConfigError


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
    of_service(tmp_path, text)  # as no user may log in to the page, there is nothing to overhear
    of_service(tmp_path, f"{text}roles = ['viewer']\nfaces = []")
    with nullcontext() if fits else pytest.raises(ConfigError, match="without TLS") as refused:
        of_service(tmp_path, f"{text}roles = ['viewer']")
    assert fits or (refused.value.key, refused.value.value) == ("http", http)


@pytest.mark.parametrize("proxies", ["['proxy.example.org']", "['10.0.0.1/8']", "['']"])
def test_a_proxy_is_an_address_or_a_network(tmp_path, proxies):
    with pytest.raises(ConfigError, match="http_proxies must be IP addresses or networks"):
        of_service(tmp_path, f"http_proxies = {proxies}")
