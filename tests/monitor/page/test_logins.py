"""Who is logged in: cookies and marks that another version of the service accepts, while both serve."""

import pytest

from pubqueue.monitor.page.logins import Login, Logins, Role, Tokens

TOKEN = "a token of twenty-one"
COOKIE = "look.1795360000.a_name.f024a7d32aa0051217107b7e8aa619c6b959b3c615e3775cfb53875b0d4a8ca4"
FORM = "4a2865fe5c073921c8703f2e4cba5b0adbc586837b8e14bf770b394b304c3c56"
MARK = "5239a5fa82941021ebaa8f0f1daa73144bc20a3ddd41ab92b7e28d5c195c8b69"


@pytest.fixture
def logins():
    return Logins(Tokens(look=TOKEN), lambda: 1_795_350_000.0)


def test_a_cookie_of_an_earlier_version_holds(logins):
    assert logins.read(COOKIE) == Login(Role.LOOK, 1_795_360_000, "a_name", FORM)


@pytest.mark.parametrize(
    "cookie",
    [
        None,
        "",
        COOKIE[:-1],
        COOKIE + "0",
        COOKIE.replace("look", "change"),
        COOKIE.replace("1795360000", "1795360001"),
        COOKIE.replace("a_name", "b_name"),
    ],
)
def test_a_cookie_with_anything_else_in_it_is_nobody_s(logins, cookie):
    assert logins.read(cookie) is None


def test_a_sentence_marked_by_an_earlier_version_is_shown(logins):
    login = logins.read(COOKIE)
    assert logins.sign(login, "Paused jobs.") == MARK
    assert logins.signed(login, "Paused jobs.", MARK)
    assert not logins.signed(login, "Purged jobs.", MARK)
    assert not logins.signed(login, "Paused jobs.", FORM)
