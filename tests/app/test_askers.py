"""Who is an administrator and who is local, by the service's own settings."""

import pytest

from pubqueue.app.principals import Askers
from pubqueue.core.model import Asker, Jid

ASKERS = Askers(admins=[Jid("boss@example.org"), Jid("root@elsewhere.org")], home="example.org")


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
    assert ASKERS.of(Jid(address)) == Asker(Jid(address), admin=admin, local=local)


def test_the_same_address_is_the_same_asker():
    assert ASKERS.of(Jid("bee@x")) is ASKERS.of(Jid("bee@x"))


def test_the_service_may_do_what_its_operator_has_configured():
    assert ASKERS.service(Jid("queue.x")) == Asker(Jid("queue.x"), admin=True)
