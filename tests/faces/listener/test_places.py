"""Addresses as they are configured."""

import pytest

from pubqueue.faces.listener import Place, places


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("9254", [("127.0.0.1", 9254)]),
        ("10.0.0.5:9254", [("10.0.0.5", 9254)]),
        ("[::1]:9254", [("::1", 9254)]),
        ("*:1", [("", 1)]),
        (":1", [("127.0.0.1", 1)]),
        ("a.example:1, [::]:2,3", [("a.example", 1), ("::", 2), ("127.0.0.1", 3)]),
    ],
)
def test_a_setting_has_several_addresses(text, found):
    assert [(one.host, one.port) for one in places(text)] == found


@pytest.mark.parametrize("text", ["host", "host:", "host:70000", "::1:80", "a:1,b", "a:-1", "a:¹"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="must"):
        places(text)


def test_an_address_is_shown_as_it_is_written():
    assert [Place("::1", 5).shown, Place("a", 5).shown] == ["[::1]:5", "a:5"]
