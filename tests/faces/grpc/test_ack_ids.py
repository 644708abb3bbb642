"""Ack ids name a lock, whatever its item and holder are called; all other texts name none."""

from base64 import urlsafe_b64encode

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc.wire import ack_id, lock_of
from pubqueue.model.entities import Item, State, account_of
from pubqueue.rules.settle_each import LockName

NAMES = st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=20)
HOLDERS = st.builds("etl@queue.x{}".format, st.just("") | NAMES.map("/{}".format))


def item(name, token, holder):
    return Item(1, "jobs", name, State.LOCKED, "etl@queue.x", 0, holder=holder, token=token)


@given(NAMES, st.integers(0, 2**62), HOLDERS)
def test_an_ack_id_leads_back_to_its_lock(name, token, holder):  # G22
    text = ack_id(item(name, token, holder))
    assert text.isascii()
    assert lock_of(text, account_of(holder)) == LockName(name, token, holder)


@given(NAMES, st.integers(0, 2**62), HOLDERS)
def test_to_another_account_it_is_worthless(name, token, holder):  # G22
    assert lock_of(ack_id(item(name, token, holder)), "bee@queue.x") is None


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_any_text_is_an_ack_id_or_none(text):  # G21
    found = lock_of(text, "etl@queue.x")
    assert found is None or account_of(found.holder) == "etl@queue.x"


def test_a_text_that_is_too_long_is_none():
    long = urlsafe_b64encode(msgspec.msgpack.encode(["a" * 9_000, 1, "etl@queue.x", ""])).decode()
    assert lock_of(long, "etl@queue.x") is None


def test_a_token_that_is_no_number_is_none():
    wrong = urlsafe_b64encode(msgspec.msgpack.encode(["a", -1, "etl@queue.x", ""])).decode()
    assert lock_of(wrong, "etl@queue.x") is None
