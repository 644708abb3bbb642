"""Who is logged in: cookies and marks that another instance of the service accepts, and what ends them."""

import pytest
from harness.operators.page_service import user

from pubqueue.accounts.accounts import Accounts, Proven
from pubqueue.accounts.credentials import Principals, Role
from pubqueue.monitor.page.logins import HELD, Login, Logins

TOKEN = "a token of twenty-one"
NOW = 1_795_350_000
LOOKER = user("looker", TOKEN, Role.VIEWER)


class Clock:
    now = float(NOW)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def made(clock, *users, seed=b"secret", service="queue.example"):
    accounts = Accounts(users, Principals(home="example"), service)
    return Logins(accounts, clock, seed)


def of(found):
    """Return who has proven to be this user by the token."""
    (mark,) = found.marks
    return Proven(found.name, f"{found.name}@queue.example", "page", mark)


@pytest.fixture
def logins(clock):
    return made(clock, LOOKER)


def test_a_cookie_holds_after_a_restart_and_on_other_instances(logins, clock):
    login, cookie = logins.begin(of(LOOKER))
    assert login == Login(of(LOOKER), False, False, NOW + HELD, login.name, login.form)  # noqa: FBT003  # it may not change
    assert made(clock, user("anna", "x" * 20), LOOKER).read(cookie) == login


def test_before_there_is_a_secret_nobody_is_logged_in(clock, logins):
    login, cookie = logins.begin(of(LOOKER))
    later = made(clock, LOOKER, seed=None)
    assert (later.has_secret, later.read(cookie)) == (False, None)
    later.take(b"secret")
    assert (later.has_secret, later.read(cookie)) == (True, login)


def test_a_cookie_does_not_contain_what_has_proven_it(logins):
    _, cookie = logins.begin(of(LOOKER))
    (digest,) = LOOKER.tokens
    assert TOKEN not in cookie
    assert digest not in cookie


def test_the_configuration_alone_is_not_enough_to_sign(logins, clock):
    _, cookie = logins.begin(of(LOOKER))
    assert made(clock, LOOKER, seed=b"another").read(cookie) is None


@pytest.mark.parametrize("odd", ["", "\udcff", "ä", "٣"])
@pytest.mark.parametrize("part", range(5))
def test_a_cookie_of_any_bytes_is_no_login(logins, odd, part):
    login, cookie = logins.begin(of(LOOKER))
    words = cookie.split(":")
    words[part] = odd
    assert logins.read(":".join(words)) is None
    assert not logins.signed(login, odd, odd)


@pytest.mark.parametrize(
    "users",
    [
        (),
        (user("looker", TOKEN),),
        (user("looker", f"{TOKEN}2", Role.VIEWER),),
        (user("other", TOKEN, Role.VIEWER),),
    ],
)
def test_a_login_ends_with_the_user_its_token_or_its_roles(logins, clock, users):
    _, cookie = logins.begin(of(LOOKER))
    assert made(clock, *users).read(cookie) is None
    logins.accounts.adopt(users)
    assert logins.read(cookie) is None


def test_rights_are_those_of_now(logins):
    login, cookie = logins.begin(of(LOOKER))
    assert not login.may_change
    for role in (Role.OPERATOR, Role.ADMIN):
        logins.accounts.adopt([user("looker", TOKEN, role)])
        assert logins.read(cookie).may_change


def test_it_expires(logins, clock):
    _, cookie = logins.begin(of(LOOKER))
    clock.now += HELD
    assert logins.read(cookie) is not None
    clock.now += 1
    assert logins.read(cookie) is None


def test_after_the_log_out_a_copy_of_the_cookie_is_worth_nothing(logins):
    login, cookie = logins.begin(of(LOOKER))
    logins.end(login)
    assert logins.read(cookie) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda _cookie: None,
        lambda _cookie: "",
        lambda _cookie: ":::::",
        lambda _cookie: "::::",
        lambda cookie: cookie[:-1],
        lambda cookie: cookie + "0",
        lambda cookie: cookie[:-1] + "\udce4",
        lambda cookie: cookie.replace("looker", "other"),
        lambda cookie: cookie.replace(str(NOW + HELD), str(NOW + HELD + 1)),
        lambda cookie: cookie.replace(str(NOW + HELD), "9" * 5000),
        lambda cookie: cookie.replace(str(NOW + HELD), "٣"),
    ],
)
def test_a_cookie_with_anything_else_in_it_is_invalid(clock, change):
    logins = made(clock, LOOKER, user("other", "x" * 20, Role.ADMIN))
    _, cookie = logins.begin(of(LOOKER))
    assert logins.read(change(cookie)) is None


def test_a_sentence_is_shown_to_the_login_that_it_was_given(logins):
    login, _ = logins.begin(of(LOOKER))
    other, _ = logins.begin(of(LOOKER))
    mark = logins.sign(login, "Paused jobs.")
    assert logins.signed(login, "Paused jobs.", mark)
    assert not logins.signed(login, "Purged jobs.", mark)
    assert not logins.signed(other, "Paused jobs.", mark)
    assert not logins.signed(login, "Paused jobs.", login.form)


def test_a_user_without_a_role_cannot_log_in(clock):
    bare = user("bare", TOKEN)
    logins = made(clock, bare)
    assert not logins.any
    assert logins.begin(of(bare)) is None
