"""Which URLs may be called, which addresses, and what the answers of targets mean."""

from ipaddress import ip_network

import pytest

from pubqueue.faces.push.targets import (
    MAX_RETRY,
    TargetError,
    Verdict,
    is_allowed,
    may_connect,
    read,
    retry_after,
    verdict_of,
)

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


V = Verdict
# fmt: off
TABLE = [
    (V.DONE, [200, 201, 202, 204, 299, 303, 304]),
    (V.FOLLOW, [307, 308]),
    (V.GONE, [410]),
    (V.BAD, [400, 411, 412, 413, 414, 415, 416, 422]),
    (V.DISABLED, [401, 402, 403, 405, 407, 417, 505]),
    (V.FAILED, [301, 302, 300, 404, 408, 409, 418, 429, 500, 502, 503, 504, 599]),
]


# fmt: on


def test_a_status_means_this():  # R32
    assert [
        (verdict, [s for s in row if verdict_of(s) is verdict]) for verdict, row in TABLE
    ] == TABLE


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_target_is_left_alone_for_a_while(status):  # R32
    assert verdict_of(status, has_retry=True) is Verdict.LATER


def test_how_long_a_target_wants_to_be_left_alone():
    now = 1_445_412_480.0
    assert retry_after({"Retry-After": "7"}, now) == 7
    assert retry_after({"Retry-After": "99999"}, now) == MAX_RETRY
    assert retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:05 GMT"}, now) == 5
    assert retry_after({"Retry-After": "Wed, 21 Oct 2015 07:00:00 GMT"}, now) == 0
    for odd in ("", "-1", "soon", "1.5", f"Wed, 21 Oct {'9' * 20} 07:28:05 GMT"):
        assert retry_after({"Retry-After": odd}, now) is None
