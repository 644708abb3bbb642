"""Messages of assured service, on both stores: stored once, delivered once, limited, and forgotten in time."""

from itertools import product

import pytest
from harness.batches.facts import EVE, JOBS, draft, who
from harness.batches.queue_requests import a_queue, publishes
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.rows import needs_of
from harness.stores.store_contents import out_of_step, recount
from msgspec.structs import replace

from pubqueue.engine.rows import KEPT_MESSAGES, MESSAGE_TOTALS
from pubqueue.engine.working_set import WorkingSet
from pubqueue.faces.xmpp.xml.refusals import WORDS
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Jid, Millis, NodeName, digest
from pubqueue.model.records import (
    MAX_IQ_ID_LENGTH,
    AccountMessages,
    AssuredFrom,
    KeptMessages,
    MessageChanged,
    MessageDelivered,
    MessageKept,
    MessageLimits,
    MessageRead,
    MessagesEnded,
    mark_of,
)
from pubqueue.rules import messages
from pubqueue.rules.messages import (
    TRANSIENT,
    DeliverMessage,
    DropMessages,
    ForgetMessages,
    KeepMessage,
    ListMessages,
    ReadMessage,
    answer_of,
    depends_on_affiliation,
    is_trusted,
    refused_of,
)
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, SetAffiliations
from pubqueue.rules.presence import Bounce

ETL, BOSS = "etl@x/spark", who("boss@x", admin=True)
LIMITS = MessageLimits(
    assured_from=AssuredFrom.ANYONE,
    messages_per_account=3,
    bytes_per_account=100,
    messages=4,
    bytes=120,
    kept_for=Millis(60_000),
    remembered_for=Millis(120_000),
    remembered_per_account=2,
)


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    if request.param == "sqlite":
        shell = Shell(tmp_path / "queue.db")
    else:
        postgres = request.getfixturevalue("running_postgres")
        postgres.wipe()
        shell = PostgresShell(postgres.address)
    shell.messages = LIMITS
    shell.batch(a_queue(access_model="open", publish_model="open"))
    yield shell
    assert shell.look_within(recount) == []
    assert shell.look_within(lambda tx: out_of_step(shell.rows.cache, tx)) == []
    shell.close()


def keeps(msg_id, message=b"<message/>", *, by=ETL, iq_id="1"):
    return KeepMessage(who(by), msg_id, iq_id, digest(message), message)


def delivers(msg_id, *names, by=ETL, message=b"<message/>", node=JOBS, otherwise="", **facts):
    request = publishes(*names, by=by, node=node, **facts) if names else None
    return DeliverMessage(who(by), msg_id, digest(message), request, otherwise)


def ids(shell, node=JOBS):
    return list(shell.look(lambda tx: tx.item_ids(node)))


def row(shell, msg_id, by=ETL):
    mark = mark_of(Jid(by), msg_id)
    found = shell.look_within(lambda tx: tx.load(needs_of(kept_messages={mark})).of)
    return next(iter(found.get(KEPT_MESSAGES, [])), None)


def totals(shell, account="etl@x"):
    needs = needs_of(message_totals={account, ""})
    found = shell.look_within(lambda tx: tx.load(needs).of).get(MESSAGE_TOTALS, [])
    by_name = {one.account: (one.messages, one.byte_count, one.remembered) for one in found}
    return by_name.get(account, (0, 0, 0)), by_name.get("", (0, 0, 0))


@pytest.mark.covers("QS-010")
def test_a_message_is_stored_and_in_no_queue_until_its_delivery_is_requested(shell):
    assert shell.do(keeps("m")) == MessageKept("m")
    assert shell.do(keeps("m")) == MessageKept("m")
    assert (ids(shell), totals(shell)) == ([], ((1, 10, 0), (1, 10, 0)))
    read = shell.do(ReadMessage(who(ETL), "m"))
    assert read == MessageRead(b"<message/>", digest(b"<message/>"))
    assert shell.do(ReadMessage(who(EVE), "m")) == MessageRead(b"", b"")


@pytest.mark.covers("QS-013")
def test_a_message_is_delivered_once_however_often_this_is_requested(shell):
    shell.do(keeps("m"))
    replies = [one.reply for one in shell.batch(*[delivers("m", "a")] * 3).decisions]
    assert replies == [MessageDelivered()] * 3
    shell.rows.cache.forget()
    assert shell.do(DeliverMessage(who(ETL), "m")) == MessageDelivered()
    assert (ids(shell), totals(shell)) == (["a"], ((0, 0, 1), (0, 0, 1)))
    assert shell.do(ReadMessage(who(ETL), "m")) == MessageRead(b"", b"")


def test_what_messages_ask_is_loaded_together_with_them(shell, monkeypatch):
    shell.messages = MessageLimits(assured_from=AssuredFrom.ANYONE)
    names = [f"i{number}" for number in range(20)]
    shell.batch(*[keeps(name) for name in names])
    loads, load = [], WorkingSet.load
    monkeypatch.setattr(WorkingSet, "load", lambda rows: (loads.append(rows), load(rows)))
    done = shell.batch(*[delivers(name, name) for name in names])
    assert [one.reply for one in done.decisions] == [MessageDelivered()] * len(names)
    assert len(loads) == 1


@pytest.mark.covers("QS-012", "QS-016")
def test_messages_of_another_resource_or_id_are_unknown(shell):
    shell.do(keeps("m"))
    for other in (delivers("m", "a", by="etl@x/other"), delivers("n", "a")):
        assert shell.do(other).refusal is Refusal.UNKNOWN_MESSAGE
    assert shell.do(keeps("m", b"<message>2</message>", by="etl@x/other")) == MessageKept("m")
    assert (ids(shell), totals(shell)[0]) == ([], (2, 30, 0))


@pytest.mark.covers("QS-035")
def test_other_bytes_under_an_id_in_use_are_refused(shell):
    shell.do(keeps("m"))
    assert shell.do(keeps("m", b"<other/>")).refusal is Refusal.KEY_REUSED
    assert shell.do(delivers("m", "a", message=b"<other/>")) == MessageChanged()
    assert shell.do(delivers("m", "a")) == MessageDelivered()


@pytest.mark.parametrize(("iq_id", "message", "anew"), [
    ("1", b"<message/>", False), ("2", b"<message/>", True), ("1", b"<message>2</message>", True),
])  # fmt: skip
@pytest.mark.covers("QS-015")
def test_a_late_copy_is_absorbed_and_a_new_message_is_kept(shell, iq_id, message, anew):
    shell.batch(keeps("m"), delivers("m", "a"))
    assert shell.do(keeps("m", message, iq_id=iq_id)) == MessageKept("m")
    assert row(shell, "m").held is anew
    assert shell.do(delivers("m", "b", message=message)) == MessageDelivered()
    assert ids(shell) == (["a", "b"] if anew else ["a"])


def test_of_a_long_id_of_a_request_only_the_digest_is_kept(shell):
    """No total counts it, and it is remembered for as long as the answer."""
    long = "i" * 100_000
    shell.batch(keeps("m", iq_id=long), delivers("m", "a"))
    assert len(row(shell, "m").iq_id) <= MAX_IQ_ID_LENGTH
    assert shell.do(keeps("m", iq_id=long)) == MessageKept("m")
    assert not row(shell, "m").held  # it is a late copy
    shell.do(keeps("m", iq_id=f"{long}i"))
    assert row(shell, "m").held


@pytest.mark.covers("QS-036")
def test_a_refusal_ends_it_and_is_remembered(shell):
    shell.do(keeps("m"))
    no = shell.do(delivers("m", "a", node=NodeName("none")))
    assert no == Refused(Refusal.NODE_NOT_FOUND)
    shell.do(a_queue(NodeName("none"), publish_model="open"))
    assert shell.do(delivers("m", "a", node=NodeName("none"))) == no
    assert shell.do(keeps("m", iq_id="2")) == MessageKept("m")
    assert shell.do(delivers("m", "a", node=NodeName("none"))) == MessageDelivered()


@pytest.mark.covers("QS-036")
def test_a_node_that_has_moved_is_named(shell):
    shell.batch(keeps("m"), Delete(BOSS, JOBS, "xmpp:elsewhere"))
    no = shell.do(delivers("m", "a"))
    assert (no.refusal, no.reason) == (Refusal.MOVED, "xmpp:elsewhere")
    assert shell.do(delivers("m", "a")) == no


@pytest.mark.covers("QS-037")
def test_a_refusal_that_passes_leaves_it_held(shell):
    shell.batch(keeps("m"), a_queue(access_model="open", publish_model="open", publish_paused=True))
    assert shell.do(delivers("m", "a")).refusal is Refusal.PUBLISH_PAUSED
    assert row(shell, "m").held
    shell.do(Configure(BOSS, JOBS, Settings({"publish_paused": False})))
    assert shell.do(delivers("m", "a")) == MessageDelivered()


@pytest.mark.covers("QS-037")
def test_rights_are_those_at_the_delivery(shell):
    shell.do(keeps("m", by=EVE))
    shell.do(SetAffiliations(BOSS, JOBS, (("eve@x", Affiliation.OUTCAST),)))
    assert shell.do(delivers("m", "a", by=EVE)).refusal is Refusal.FORBIDDEN


@pytest.mark.covers("QS-036")
def test_a_message_that_requests_nothing_gets_the_answer_of_the_face(shell):
    shell.do(keeps("m"))
    for _ in range(2):
        assert shell.do(delivers("m", otherwise="<error/>")) == MessageDelivered("<error/>")


def test_a_bounce_is_taken(shell):
    shell.do(keeps("m"))
    bounce = Bounce(Jid(ETL), 1, 1, gone=False, bounced=True, mark="")
    request = DeliverMessage(who(ETL), "m", digest(b"<message/>"), bounce)
    assert shell.do(request) == MessageDelivered()


@pytest.mark.parametrize(("first", "last", "setting"), [
    ([b"1", b"2", b"3"], b"4", "messages_per_account"),
    ([b"a" * 60], b"b" * 41, "bytes_per_account"),
])  # fmt: skip
@pytest.mark.covers("QS-011", "QS-021")
def test_an_account_that_is_full_is_refused_and_keeps_what_is_held(shell, first, last, setting):
    for number, message in enumerate(first):
        shell.do(keeps(str(number), message, by=f"etl@x/{number}"))
    no = shell.do(keeps("last", last))
    assert (no.refusal, no.setting) == (Refusal.TOO_MUCH_HELD, setting)
    assert shell.do(keeps("0", first[0], by="etl@x/0")) == MessageKept("0")  # also when it is full
    assert shell.do(delivers("0", "a", message=first[0], by="etl@x/0")) == MessageDelivered()
    assert shell.do(keeps("last", last)) == MessageKept("last")


@pytest.mark.covers("QS-022")
def test_all_together_are_bounded(shell):
    kept = [shell.do(keeps("m", by=f"{name}@x/1")) for name in "abcde"]
    assert kept[:4] == [MessageKept("m")] * 4
    assert (kept[4].refusal, kept[4].setting) == (Refusal.TOO_MUCH_HELD, "messages")
    shell.messages = replace(LIMITS, messages=100)
    no = shell.do(keeps("n", b"a" * 81, by="f@x/1"))
    assert (no.refusal, no.setting) == (Refusal.TOO_MUCH_HELD, "bytes")


@pytest.mark.covers("QS-034")
def test_held_ends_in_time_and_answers_are_forgotten(shell):
    shell.batch(keeps("m"), keeps("n"), delivers("n", "a"))
    shell.wait(61)
    assert shell.do(delivers("m", "b")).refusal is Refusal.UNKNOWN_MESSAGE
    ended = shell.do(ForgetMessages())
    assert [one.msg_id for one in ended.held] == ["m"]
    assert totals(shell) == ((0, 0, 1), (0, 0, 1))
    shell.wait(61)
    assert shell.do(delivers("n", "a")).refusal is Refusal.UNKNOWN_MESSAGE
    assert shell.do(ForgetMessages()).held == ()
    assert totals(shell) == ((0, 0, 0), (0, 0, 0))


def test_a_message_takes_the_place_of_one_whose_time_is_over(shell):
    shell.do(keeps("m"))
    shell.wait(61)
    assert shell.do(keeps("m", b"<other/>")) == MessageKept("m")
    assert totals(shell) == ((1, 8, 0), (1, 8, 0))


def test_the_oldest_answers_of_an_account_are_removed_first(shell):
    for number in range(4):
        shell.wait(1)
        name = f"m{number}"
        shell.batch(keeps(name), delivers(name, name))
    assert totals(shell)[0] == (0, 0, 2)
    assert [row(shell, f"m{number}") is None for number in range(4)] == [True, True, False, False]


def test_an_administrator_lists_and_drops_what_is_held(shell):
    shell.batch(keeps("m"), keeps("n"), keeps("m", by=EVE), delivers("n", "a"))
    until = Millis(shell.now + LIMITS.kept_for)
    accounts = AccountMessages("etl@x", 1, 10, until), AccountMessages("eve@x", 1, 10, until)
    assert shell.do(ListMessages(BOSS)) == KeptMessages(accounts, 2, 20, 1)
    assert shell.do(ListMessages(BOSS, "etl@x", 1)) == KeptMessages(accounts[1:], 2, 20, 1)
    for request in (ListMessages(who(ETL)), DropMessages(who(ETL), Jid("eve@x"))):
        assert shell.do(request).refusal is Refusal.FORBIDDEN
    assert shell.do(DropMessages(BOSS, Jid("etl@x"))) == MessagesEnded((), more=False, count=1)
    assert shell.do(delivers("m", "b")).refusal is Refusal.UNKNOWN_MESSAGE
    assert shell.do(delivers("n", "b")) == MessageDelivered()
    assert totals(shell) == ((0, 0, 1), (1, 10, 1))


def test_many_are_dropped_in_slices(shell, monkeypatch):
    monkeypatch.setattr(messages, "SLICE", 2)
    shell.batch(*(keeps(name) for name in "abc"))
    assert shell.do(DropMessages(BOSS, Jid("etl@x"))) == MessagesEnded((), more=False, count=3)
    assert totals(shell) == ((0, 0, 0), (0, 0, 0))


@pytest.mark.covers("QS-020", "QS-045")
def test_an_account_with_an_affiliation_is_trusted(shell):
    shell.messages = replace(LIMITS, assured_from=AssuredFrom.AFFILIATED)
    assert shell.do(keeps("m", by=EVE)).refusal is Refusal.NOT_TRUSTED
    shell.do(SetAffiliations(BOSS, JOBS, (("eve@x", Affiliation.OUTCAST),)))
    assert shell.do(keeps("m", by=EVE)).refusal is Refusal.NOT_TRUSTED
    shell.do(SetAffiliations(BOSS, JOBS, (("eve@x", Affiliation.MEMBER),)))
    assert shell.do(keeps("m", by=EVE)) == MessageKept("m")


TRUSTED = {
    # from:                 admin  local  affiliated  other
    AssuredFrom.KNOWN:      (True, True, True, False),
    AssuredFrom.AFFILIATED: (True, False, True, False),
    AssuredFrom.ANYONE:     (True, True, True, True),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "kind"), list(product(AssuredFrom, range(4))))
@pytest.mark.covers("QS-020")
def test_accounts_that_are_trusted(wanted, kind):
    by = who("a@x/1", admin=kind == 0, local=kind == 1)
    affiliated = kind == 2 and depends_on_affiliation(by, wanted)
    assert is_trusted(by, wanted, affiliated=affiliated) is TRUSTED[wanted][kind]
    assert not is_trusted(replace(by, anonymous=True), wanted, affiliated=True)
    assert not is_trusted(replace(by, jid=Jid("x")), wanted, affiliated=True)


def test_refusals_that_pass_are_those_of_which_senders_are_asked_to_wait():
    waits = {refusal for refusal, error in WORDS.items() if error.type == "wait"}
    assert waits | {Refusal.INTERNAL_FAULT} == TRANSIENT


def test_a_refusal_is_remembered_as_it_was():
    every = [Refused(refusal, "a reason", 7, setting="ttl") for refusal in Refusal]
    assert [refused_of(answer_of(no)) for no in every] == every


def test_a_publish_beyond_its_bounds_is_refused_when_it_is_delivered(shell):
    shell.do(keeps("m"))
    one = draft("a", priority=1 << 40)
    request = delivers("m", "a")
    wild = replace(request, request=replace(request.request, drafts=(one,)))
    assert shell.do(wild).refusal is Refusal.BAD_REQUEST
