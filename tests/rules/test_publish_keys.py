"""A publish under a key is done once: a repetition gets the first answer, whatever happened to the item."""

import pytest
from harness.batches.facts import ETL, JOBS, NOW, after, draft, held, queue, who
from msgspec.structs import replace

from pubqueue.model.changes import PutRow
from pubqueue.model.decision import (
    Decision,
    KeyUsed,
    Published,
    Refusal,
    Refused,
    SecretKept,
    refuse,
)
from pubqueue.model.entities import (
    Affiliation,
    ItemId,
    Jid,
    Millis,
    NodeName,
    Principal,
    digest,
    seconds,
)
from pubqueue.model.records import (
    MAX_IDS,
    MAX_KEPT,
    MAX_KEY_LENGTH,
    MAX_KEY_REMEMBERED,
    ROW,
    KeyFacts,
    KeyTotal,
    PublishKey,
    ServiceSecret,
    UsedKey,
    content_of,
    mark_of_key,
    size_of_ids,
)
from pubqueue.model.transactions import Mark
from pubqueue.rules.publication import Known, Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once
from pubqueue.rules.publish_keys import (
    KeepSecret,
    KeepSecretFacts,
    ReadUsedKey,
    UsedKeyFacts,
    keep_secret,
    read_used_key,
)
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.validity import of_publish, of_stage

ACCOUNT = Jid("etl@x")
KEY = PublishKey("k", seconds(60))
STRICT = replace(KEY, strict=True)
MARK = mark_of_key(ACCOUNT, JOBS, "k")
ONE = Publish(who(ETL), JOBS, (draft("i1"),), key=KEY)
CONTENT = content_of(ONE.drafts, digest)
SIZE = ROW + len("i1")
USED = UsedKey(MARK, ACCOUNT, CONTENT, after(60), SIZE, (ItemId("i1"),), ())
AGAIN = Published(JOBS, (ItemId("i1"),), again=True)


def facts(used=None, total=None, *, node=None, existing=(Known.NEW, None), content=CONTENT):
    bound = None if total is None else KeyTotal(ACCOUNT, total)
    return PublishFacts(
        *(NOW, node or queue(), Affiliation.PUBLISHER, False, (existing,)),
        key=KeyFacts(used, bound, content),
    )


def test_the_key_is_noted_in_the_commit_of_the_publish():
    plain = publish_at_once(replace(ONE, key=None), facts())
    decision = publish_at_once(ONE, facts())
    noted = PutRow(USED), PutRow(KeyTotal(ACCOUNT, SIZE))
    assert decision == replace(plain, changes=(*plain.changes, *noted))
    assert decision.reply == Published(JOBS, (ItemId("i1"),))


def test_all_keys_of_the_account_are_counted():
    *_, noted = publish_at_once(ONE, facts(total=1000)).changes
    assert noted.row == KeyTotal(ACCOUNT, 1000 + SIZE)


@pytest.mark.parametrize("existing", [(Known.NEW, None), (Known.OTHER, held(1))])
def test_a_repetition_has_the_answer_of_the_first_and_does_nothing(existing):
    assert publish_at_once(ONE, facts(USED, SIZE, existing=existing)) == Decision(AGAIN)


def test_so_it_has_where_the_node_is_paused_or_no_more():
    paused = queue(publish_paused=True)
    assert publish_at_once(ONE, facts(USED, SIZE, node=paused)) == Decision(AGAIN)
    gone = replace(facts(USED, SIZE), node=None, existing=())
    assert publish_at_once(ONE, gone) == Decision(AGAIN)


def test_the_answer_has_what_was_known_then():
    known = publish_at_once(ONE, facts(existing=(Known.SAME, held(1, "i1")))).changes[-2].row
    assert known.known == (ItemId("i1"),)
    assert publish_at_once(ONE, facts(known, SIZE)).reply == replace(AGAIN, known=known.known)


def test_other_contents_do_not_matter_unless_the_key_is_strict():
    other = facts(USED, SIZE, content=b"other")
    assert publish_at_once(ONE, other) == Decision(AGAIN)
    assert publish_at_once(replace(ONE, key=STRICT), other) == Decision(Refused(Refusal.KEY_REUSED))
    assert publish_at_once(replace(ONE, key=STRICT), facts(USED, SIZE)) == Decision(AGAIN)


def test_a_key_that_is_remembered_no_longer_is_new_and_takes_its_former_place():
    old = replace(USED, until=NOW, size=500)
    *_, used, total = publish_at_once(ONE, facts(old, 800)).changes
    assert (used, total) == (PutRow(USED), PutRow(KeyTotal(ACCOUNT, 300 + SIZE)))


def test_a_refused_publish_has_not_used_its_key():
    full = queue(publish_paused=True)
    assert publish_at_once(ONE, facts(node=full)) == publish_at_once(
        replace(ONE, key=None), facts(node=full)
    )
    assert publish_at_once(ONE, facts(node=full)).changes == ()


def test_the_keys_of_an_account_are_bounded():
    assert publish_at_once(ONE, facts(total=MAX_KEPT - SIZE)).changes
    refused = publish_at_once(ONE, facts(total=MAX_KEPT - SIZE + 1))
    assert refused == Decision(Refused(Refusal.TOO_MANY_KEYS))
    assert publish_at_once(ONE, facts(USED, MAX_KEPT)) == Decision(AGAIN)


def test_a_key_is_of_its_account_and_its_node():
    marks = {
        mark_of_key(ACCOUNT, JOBS, "k"),
        mark_of_key(Jid("eve@x"), JOBS, "k"),
        mark_of_key(ACCOUNT, NodeName("other"), "k"),
        mark_of_key(ACCOUNT, JOBS, "K"),
    }
    assert len(marks) == 4


def test_contents_are_payloads_and_types_in_their_order_whatever_their_ids():
    def content(*drafts):
        return content_of(drafts, digest)

    typed = draft("a", headers=(("Content-Type", "text/x"),))
    assert content(draft("a")) == content(draft("b"))
    assert content(draft("a")) == content(draft("a", headers=(("traceparent", "1"),)))
    several = {
        content(),
        content(draft("a")),
        content(typed),
        content(draft("a", payload=b"<b/>")),
        content(draft("a"), draft("a", payload=b"<b/>")),
        content(draft("a", payload=b"<b/>"), draft("a")),
    }
    assert len(several) == 6


def test_the_bytes_of_ids_are_counted_as_they_are_stored():
    assert size_of_ids([ItemId("é"), ItemId("a")]) == 3


@pytest.mark.parametrize(
    "key",
    [
        replace(KEY, name=""),
        replace(KEY, name="x" * (MAX_KEY_LENGTH + 1)),
        replace(KEY, name="a\nb"),
        replace(KEY, remember=Millis(0)),
        replace(KEY, remember=Millis(MAX_KEY_REMEMBERED + 1)),
    ],
)
def test_an_invalid_key_is_refused(key):
    assert of_publish(replace(ONE, key=key)).refusal is Refusal.BAD_REQUEST


def test_the_longest_key_and_the_longest_time_are_admitted():
    most = PublishKey("é" * (MAX_KEY_LENGTH // 2), MAX_KEY_REMEMBERED)
    assert of_publish(replace(ONE, key=most)) is None


def test_ids_that_are_too_long_to_be_kept_are_refused():
    names = [draft(f"{n:03}" + "x" * 509) for n in range(MAX_IDS // 512 + 1)]
    assert of_publish(replace(ONE, drafts=tuple(names[1:]))) is None
    assert of_publish(replace(ONE, drafts=tuple(names))).refusal is Refusal.BAD_REQUEST


def test_a_staged_publish_has_no_key():
    mark = Mark("app", 1)
    assert of_stage(StagePublish(replace(ONE, key=None), mark)) is None
    assert of_stage(StagePublish(ONE, mark)).refusal is Refusal.BAD_REQUEST


# A secret is created once, and only for the service.

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


# An account reads its publish under a key, as long as it is remembered.

THE_JOBS, THE_ETL = NodeName("jobs"), Jid("etl@x")
IDS = (ItemId("a"), ItemId("b"))
USED_KEY = UsedKey("m", THE_ETL, b"c", Millis(100), 9, IDS, ())


@pytest.mark.parametrize(
    ("now", "used", "ids"), [(99, USED_KEY, IDS), (100, USED_KEY, None), (99, None, None)]
)
def test_a_used_key_is_known_until_it_expires(now, used, ids):
    request = ReadUsedKey(Principal(THE_ETL), THE_JOBS, "k")
    decision = read_used_key(request, UsedKeyFacts(Millis(now), used))
    assert decision == Decision(KeyUsed(THE_JOBS, ids))
