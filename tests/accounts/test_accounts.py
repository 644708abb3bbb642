"""Logins: proofs, costs, waits, and the effect of changed users on existing logins."""

import asyncio
import os
import threading
from hashlib import sha256

import pytest
from harness.patience import TIMEOUT, until
from rich.pretty import pretty_repr
from structlog.testing import capture_logs

from pubqueue.accounts import credentials
from pubqueue.accounts.accounts import (
    AT_ONCE,
    BUSY,
    FREE,
    MAX_WAIT,
    MAX_WAITING,
    NICENESS,
    REMEMBERED_FOR,
    Accounts,
    Denied,
    Proven,
)
from pubqueue.accounts.credentials import Bearer, Certificate, Plain, Principals, Role, User
from pubqueue.model.entities import Jid

HERE = "192.0.2.1"
RIGHT, WRONG = "correct horse", "battery staple"
TOKEN = "a-token-of-twenty-two-c"
PASSWORD = credentials.make(RIGHT)
ETL = User(
    "etl",
    password=PASSWORD,
    tokens=frozenset({sha256(TOKEN.encode()).hexdigest()}),
    certificate=credentials.read_subject("CN=etl,O=example"),
)
SUBJECT = ((("organizationName", "example"),), (("commonName", "etl"),))


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def compared(monkeypatch):
    """The compared passwords, each with the stored string."""
    found = []
    matches = credentials.Scrypt.matches

    def noted(self, password):
        found.append(self)
        return matches(self, password)

    monkeypatch.setattr(credentials.Scrypt, "matches", noted)
    return found


@pytest.fixture
def make(clock):
    made = []

    def accounts(*users):
        principals = Principals(home="example.org")
        made.append(Accounts(users, principals, "queue.example.org", clock))
        return made[-1]

    yield accounts
    for one in made:
        one.close()


async def prove(accounts, given, face="line", peer=HERE):
    async with asyncio.timeout(TIMEOUT):
        return await accounts.prove(given, face=face, peer=peer)


@pytest.mark.parametrize(
    "given",
    [Plain("etl", RIGHT), Bearer(TOKEN), Certificate(SUBJECT)],
    ids=lambda one: type(one).__name__,
)
async def test_each_way_proves_the_account(make, given):
    proven = await prove(make(ETL), given)
    assert isinstance(proven, Proven)
    assert (proven.name, proven.account, proven.face) == ("etl", "etl@queue.example.org", "line")


@pytest.mark.parametrize(
    ("given", "user", "scheme"),
    [
        (Plain("etl", WRONG), "etl", "password"),
        (Plain("etl", ""), "etl", "password"),
        (Plain("nobody", RIGHT), "", "password"),
        (Plain("", ""), "", "password"),
        (Plain("\ud800", "\ud800"), "", "password"),
        (Plain("ETL", RIGHT), "", "password"),
        (Plain(RIGHT, "etl"), "", "password"),
        (Plain("bare", RIGHT), "bare", "password"),
        (Plain("etl", "x" * 1_000_000), "etl", "password"),
        (Bearer(TOKEN + "x"), "", "token"),
        (Bearer(""), "", "token"),
        (Bearer("\ud800"), "", "token"),
        (Certificate(SUBJECT[:1]), "", "certificate"),
        (Certificate(()), "", "certificate"),
    ],
)
async def test_wrong_credentials_are_denied_and_logged_without_their_text(
    make, given, user, scheme
):
    with capture_logs() as logs:
        assert await prove(make(ETL, User("bare")), given) == Denied()
    (line,) = logs
    assert (
        line.items()
        >= {
            "event": "login.refused",
            "log_level": "warning",
            "user": user,
            "scheme": scheme,
            "face": "line",
            "peer": HERE,
        }.items()
    )
    for secret in (RIGHT, WRONG, TOKEN):
        assert secret not in str(logs)


def test_credentials_are_not_shown():
    for shown in (repr, pretty_repr):
        assert RIGHT not in shown(Plain(RIGHT, RIGHT))
        assert TOKEN not in shown(Bearer(TOKEN))


async def test_a_name_that_does_not_exist_costs_what_a_wrong_password_costs(make, compared):
    accounts = make(ETL, User("bare"))
    for name in ("etl", "nobody", "bare"):
        await prove(accounts, Plain(name, WRONG))
    assert [one.cost for one in compared] == [PASSWORD.cost] * 3


async def test_where_passwords_differ_in_cost_an_unknown_name_costs_what_one_of_them_does(
    make, compared
):
    dear = credentials.decoy((15, 8, 1))
    users = [User("dear", password=dear), ETL]
    for accounts in (make(*users), make(*reversed(users))):  # and always the same
        for number in range(12):
            await prove(accounts, Plain(f"n{number}", WRONG), peer=f"192.0.2.{number}")
    costs = [one.cost for one in compared]
    assert set(costs) == {PASSWORD.cost, dear.cost}
    assert costs[:12] == costs[12:]


async def test_a_pair_that_was_right_is_not_compared_again_for_ten_minutes(make, clock, compared):
    accounts = make(ETL)
    for _ in range(3):
        assert isinstance(await prove(accounts, Plain("etl", RIGHT)), Proven)
    assert len(compared) == 1
    clock.now += REMEMBERED_FOR
    assert isinstance(await prove(accounts, Plain("etl", RIGHT)), Proven)
    assert len(compared) == 2


async def test_a_remembered_login_proves_no_other(make):
    accounts = make(ETL, User("anna", password=credentials.make(WRONG)))
    await prove(accounts, Plain("etl", RIGHT))
    assert await prove(accounts, Plain("anna", RIGHT)) == Denied()
    assert await prove(accounts, Plain("etl", WRONG)) == Denied()


async def test_many_connections_with_the_same_password_cost_one_comparison(make, compared):
    accounts = make(ETL)
    asked = [prove(accounts, Plain("etl", RIGHT)) for _ in range(100)]
    assert all(isinstance(one, Proven) for one in await asyncio.gather(*asked))
    assert len(compared) == 1


async def test_a_flood_of_one_peer_costs_a_few_comparisons_and_is_asked_to_wait(make, compared):
    accounts = make(ETL)
    flood = [prove(accounts, Plain("etl", f"{WRONG} {number}")) for number in range(100)]
    found = await asyncio.gather(*flood)
    assert len(compared) <= FREE + AT_ONCE
    assert sum(one == Denied() for one in found) == len(compared)
    assert all(one.wait > 0 for one in found if one != Denied())


async def test_comparing_gives_way_to_the_event_loop(make, monkeypatch):
    found = []

    def noted(_self, _password):
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return False

    monkeypatch.setattr(credentials.Scrypt, "matches", noted)
    await prove(make(ETL), Plain("etl", WRONG))
    ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert found == [min(ours + NICENESS, 19)]


async def test_waiting_logins_are_limited_and_others_have_to_wait(make, monkeypatch):
    monkeypatch.setattr(credentials.Scrypt, "matches", lambda _self, _password: False)
    accounts = make(ETL)
    flood = [
        prove(accounts, Plain("etl", WRONG), peer=f"peer {number}")
        for number in range(MAX_WAITING + 9)
    ]
    found = await asyncio.gather(*flood)
    assert found.count(Denied(BUSY)) == 9


async def test_a_login_that_is_abandoned_is_counted(make):
    accounts = make(ETL)
    for number in range(FREE + 1):
        waiting = asyncio.create_task(prove(accounts, Plain("etl", f"{WRONG} {number}")))
        await asyncio.wait([waiting], timeout=0)  # it has begun
        waiting.cancel()
    await until(lambda: accounts.wait(HERE, "etl"))


async def test_accounts_with_many_wrong_attempts_wait_and_others_do_not(make, clock):
    accounts = make(ETL, User("anna", password=PASSWORD))
    for _ in range(FREE + 1):
        assert await prove(accounts, Plain("etl", WRONG)) == Denied()
    assert await prove(accounts, Plain("etl", RIGHT)) == Denied(1.0)
    assert isinstance(await prove(accounts, Plain("anna", RIGHT)), Proven)
    assert isinstance(await prove(accounts, Plain("etl", RIGHT), peer="192.0.2.2"), Proven)
    clock.now += 1
    assert isinstance(await prove(accounts, Plain("etl", RIGHT)), Proven)


async def test_guessed_tokens_are_slowed_as_well(make):
    accounts = make(ETL)
    for number in range(FREE + 9):
        await prove(accounts, Bearer(f"guess {number}"))
    assert (await prove(accounts, Bearer(TOKEN))).wait == 1.0
    assert isinstance(await prove(accounts, Certificate(SUBJECT), peer="192.0.2.2"), Proven)


async def test_no_wait_is_longer_than_a_minute(make, clock):
    accounts = make(ETL)
    for number in range(20):
        await prove(accounts, Bearer(f"guess {number}"))
        clock.now += accounts.wait(HERE)
    await prove(accounts, Bearer("guess"))
    assert accounts.wait(HERE) == MAX_WAIT


@pytest.mark.parametrize("given", [Plain("anna", RIGHT), Bearer(TOKEN)])
async def test_a_user_logs_in_where_the_list_of_faces_says(make, given):
    digest = sha256(TOKEN.encode()).hexdigest()
    anna = User("anna", password=PASSWORD, tokens=frozenset({digest}), faces=frozenset({"page"}))
    accounts = make(anna)
    assert isinstance(await prove(accounts, given, face="page"), Proven)
    with capture_logs() as logs:
        assert await prove(accounts, given, face="line") == Denied()
    assert [line["user"] for line in logs] == ["anna"]


async def test_a_user_that_is_gone_or_has_another_password_is_out(make):
    accounts = make(ETL)
    by_password = await prove(accounts, Plain("etl", RIGHT))
    by_token = await prove(accounts, Bearer(TOKEN))
    held = []
    stop = accounts.watch(
        lambda: held.append([accounts.holds(one) for one in (by_password, by_token)])
    )
    accounts.adopt([ETL, User("anna")])
    accounts.adopt([User("etl", password=credentials.make(WRONG), tokens=ETL.tokens)])
    assert await prove(accounts, Plain("etl", RIGHT)) == Denied()
    accounts.adopt([User("etl", password=PASSWORD)])
    assert isinstance(await prove(accounts, Plain("etl", RIGHT)), Proven)
    accounts.adopt([User("etl", password=PASSWORD, faces=frozenset())])
    stop()
    accounts.adopt([])
    assert held == [[True, True], [False, True], [True, False], [False, False]]
    assert not accounts.holds(by_password)
    assert await prove(accounts, Bearer(TOKEN)) == Denied()


async def test_a_user_that_goes_while_its_password_is_compared_is_denied(make):
    accounts = make(ETL)
    proving = asyncio.create_task(prove(accounts, Plain("etl", RIGHT)))
    await asyncio.wait([proving], timeout=0)  # it has begun
    accounts.adopt([])
    assert await proving == Denied()


async def test_roles_are_those_of_now(make):
    accounts = make(User("etl", password=PASSWORD, roles=frozenset({Role.VIEWER})))
    assert accounts.has_role_at("page")
    proven = await prove(accounts, Plain("etl", RIGHT))
    assert accounts.roles(proven) == {Role.VIEWER}
    accounts.adopt([User("etl", password=PASSWORD)])
    assert accounts.roles(proven) == frozenset()
    assert not accounts.has_role_at("page")
    accounts.adopt([])
    assert accounts.roles(proven) == frozenset()


async def test_at_the_end_waiting_requests_are_answered(make, monkeypatch):
    closed = threading.Event()
    monkeypatch.setattr(credentials.Scrypt, "matches", lambda _self, _password: not closed.wait())
    accounts = make(ETL)
    asked = [
        asyncio.create_task(prove(accounts, Plain("etl", WRONG), peer=f"peer {number}"))
        for number in range(AT_ONCE + 5)
    ]
    await asyncio.wait(asked, timeout=0)  # they have begun
    accounts.close()
    closed.set()
    found = await asyncio.gather(*asked)
    assert found.count(Denied(BUSY)) >= 5


def test_an_account_is_an_address_of_the_service():
    principals = Principals(admins=[Jid("root@queue.example.org")], home="example.org")
    principals.welcome([Jid("etl@queue.example.org")])
    etl, root, other = (
        principals.of(Jid(f"{name}@queue.example.org/line.1.1"))
        for name in ("etl", "root", "other")
    )
    assert [one.local for one in (etl, root, other)] == [True, False, False]
    assert [one.admin for one in (etl, root, other)] == [False, True, False]
