"""Which URLs may be called, and which addresses."""

from ipaddress import ip_network

import pytest

from pubqueue.faces.push.targets import TargetError, is_allowed, may_connect, read

PREFIXES = [read("https://hooks.example.org/in/"), read("http://10.0.0.1:8080")]


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/in",
        "https://hooks.example.org/in/a?b=c",
        "HTTPS://HOOKS.example.org:443/in/a",
        "https://hooks.example.org./in/a",
        "https://hooks.example.org/out/../in/a",
        "http://10.0.0.1:8080/x",
    ],
)
def test_what_begins_with_a_prefix_is_allowed(url):
    assert is_allowed(read(url), PREFIXES)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/in/a",
        "https://hooks.example.org:444/in/a",
        "https://hooks.example.org.evil.org/in/a",
        "https://hooks.example.org/inside",
        "https://hooks.example.org/in/../out",
        "https://hooks.example.org/in/%2e%2e/out",
        "http://10.0.0.1/x",
        "http://10.0.0.2:8080/x",
    ],
)
def test_other_urls_are_not(url):
    assert not is_allowed(read(url), PREFIXES)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://x/",
            "//x/",
            "/x",
            "",
            "https://",
            "https:///x",
            "https://x:0/",
            "https://x:99999/",
        ),
        *("https://u@x/", "https://u:p@x/", "https://x/#f", "https://x/\n", "https://x/ä"),
        *("https://x\\@y/", "https://[::1/", "https://[x]/", "https://x y/"),
        *("http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/"),
        *("http://127.0.0.1./", "http://0x7f.0.0.1/", "https://" + "x" * 3000),
    ],
)
def test_odd_urls_are_refused(url):  # W10
    with pytest.raises(TargetError):
        read(url)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1"),
        *("::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "2001:0:1::", "ff02::1", "no address"),
    ],
)
def test_addresses_near_us_are_not_connected_to(address):  # W10
    assert not may_connect(address, ())


def test_global_addresses_and_listed_networks_are():
    assert may_connect("93.184.216.34", ())
    assert may_connect("2606:2800:220:1::1", ())
    assert may_connect("10.1.2.3", (ip_network("10.0.0.0/8"),))
