"""Endpoints as they are written, and which of them the operator allows."""

from __future__ import annotations

import pytest

from pubqueue.faces.push.targets import TargetError, is_listed, read_endpoint

GOOD = ["http://a.b/c?d=e", "https://a.b:8443", "a.b:8888", "127.0.0.1:1", "[::1]:80"]
BAD = [
    "",
    "a",
    "a:0",
    "a:99999",
    "ftp://a",
    "http://",
    "http://u@a/",
    "http://a/#b",
    "a:1/b",
    "a b:1",
    "http://a:x/",
    "a\0:1",
    "http://" + "a" * 2_048,
]


@pytest.mark.parametrize("text", GOOD)
def test_endpoints(text):
    assert read_endpoint(text).url == text


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_endpoint(text):
    with pytest.raises(TargetError):
        read_endpoint(text)


@pytest.mark.parametrize(
    ("text", "patterns", "allowed"),
    [
        ("https://a.example.org", ("*.example.org:443",), True),
        ("https://A.Example.org", ("*.example.org:443",), True),
        ("https://example.org", ("*.example.org:443",), False),
        ("https://a.example.org.evil.org", ("*.example.org:443",), False),
        ("http://a.example.org", ("*.example.org:443",), False),
        ("http://a.example.org:1", ("*.example.org:*",), True),
        ("http://10.0.0.1", ("*:80",), True),
        ("http://127.0.0.1", ("*:80",), False),
        ("http://169.254.169.254", ("*:80",), False),
        ("http://localhost", ("*:80",), False),
        ("http://[::ffff:127.0.0.1]", ("*:80",), False),
        ("http://127.0.0.1", ("127.0.0.1:80",), True),
        ("http://[::1]", ("[::1]:80",), True),
        ("http://a", (), False),
    ],
)
def test_patterns(text, patterns, allowed):  # G27
    assert is_listed(read_endpoint(text), patterns) is allowed
