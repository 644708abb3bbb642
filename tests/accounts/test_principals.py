"""Which accounts are administrators or local, by the service's settings."""

import pytest

from pubqueue.accounts.credentials import Principals
from pubqueue.model.entities import Jid, Principal

PRINCIPALS = Principals(
    admins=[Jid("boss@example.org"), Jid("root@elsewhere.org")], home="example.org"
)


@pytest.mark.parametrize(
    ("address", "admin", "local"),
    [
        ("boss@example.org", True, True),
        ("boss@example.org/desk", True, True),
        ("root@elsewhere.org/x", True, False),
        ("bee@example.org/one", False, True),
        ("bee@sub.example.org", False, False),
        ("example.org", False, True),
        ("queue.example.org", False, False),
        ("eve@elsewhere.org/boss@example.org", False, False),
    ],
)
def test_an_account_is_judged_whatever_its_resource(address, admin, local):
    assert PRINCIPALS.of(Jid(address)) == Principal(Jid(address), admin=admin, local=local)


def test_the_same_address_is_the_same_asker():
    assert PRINCIPALS.of(Jid("bee@x")) is PRINCIPALS.of(Jid("bee@x"))


def test_the_service_may_do_what_its_operator_has_configured():
    assert PRINCIPALS.service(Jid("queue.x")) == Principal(Jid("queue.x"), admin=True)
