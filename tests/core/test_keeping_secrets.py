"""A secret is created once, and only for the service."""

import pytest

from pubqueue.model.changes import PutRow
from pubqueue.model.decision import Decision, Refusal, SecretKept, refuse
from pubqueue.model.entities import Jid, Principal
from pubqueue.model.records import ServiceSecret
from pubqueue.rules.once import KeepSecret, KeepSecretFacts, keep_secret

SERVICE = Principal(Jid("queue.x"), admin=True)
NEW, OLD = ServiceSecret("rest", b"new"), ServiceSecret("rest", b"old")


def test_the_first_one_is_kept():
    decision = keep_secret(KeepSecret(SERVICE, NEW), KeepSecretFacts(None))
    assert decision == Decision(SecretKept(b"new"), (PutRow(NEW),))


def test_all_others_get_the_first_one():
    assert keep_secret(KeepSecret(SERVICE, NEW), KeepSecretFacts(OLD)) == Decision(
        SecretKept(b"old")
    )


@pytest.mark.parametrize("kept", [None, OLD])
def test_accounts_get_none(kept):
    by = Principal(Jid("etl@queue.x"))
    decision = keep_secret(KeepSecret(by, NEW), KeepSecretFacts(kept))
    assert decision == refuse(Refusal.FORBIDDEN)


def test_secrets_are_not_shown():
    for shown in (repr(NEW), repr(SecretKept(b"new")), repr(KeepSecret(SERVICE, NEW))):
        assert "b'" not in shown
