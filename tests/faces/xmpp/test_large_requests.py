"""What is refused as too large has done nothing, and what is done is never answered with *wait*."""

import pytest
from harness.servers.stage import BOSS, SERVICE, staged
from harness.stores.rows import needs_of
from msgspec.structs import replace

from pubqueue.engine.rows import AFFILIATIONS, WAITING, Needs
from pubqueue.model import limits
from pubqueue.model.entities import Affiliation, NodeName
from pubqueue.rules.validity import MAX_ENTRIES, MAX_NAMED, MAX_PUBLISHED

QUEUE = (
    "<x xmlns='jabber:x:data' type='submit'><field var='x-queueing#enabled'><value>1</value></field>"
    "<field var='x-queueing#max_queue_requests'><value>1000</value></field>"
    "<field var='pubsub#access_model'><value>open</value></field></x></configure>"
)
WINDOW = (
    "<x xmlns='jabber:x:data' type='submit'>"
    "<field var='pubsub#queue_requests'><value>1000</value></field></x>"
)
JOBS = NodeName("jobs")
LONG = "ü" * 400
"""An id of 800 bytes: of so long ones fewer have room in an answer than are allowed."""
OURS = "urn:x-pubqueue:0"
OWNER = "#owner"


@pytest.fixture
async def stage(monkeypatch):
    """A stage on which nobody is asked to wait for what it costs to read so much on a slow machine."""
    monkeypatch.setattr(limits, "ACCOUNT", replace(limits.ACCOUNT, refused=1e9))
    async with staged() as stage:
        assert await stage.ask("queue", "<create node='jobs'/><configure>" + QUEUE) == "result"
        yield stage


def named(tag, names):
    return "".join(f"<{tag} id='{name}'/>" for name in names)


def publish(names, beside=""):
    items = "".join(f"<item id='{name}'><x xmlns='x'/></item>" for name in names)
    return f"<publish node='jobs'>{items}</publish>{beside}"


async def depth(stage):
    (node,) = (await stage.store.read(lambda tx: tx.load(Needs(nodes={JOBS})))).nodes
    return node.items


async def ask(stage, inner, **facts):
    """Ask, and return the type and condition of the error, None if there is none."""
    await stage.server.send(stage.iq("q", inner, **facts))
    answer = await stage.answer("q")
    if answer.get("type") == "result":
        return None
    error = answer.find("{*}error")
    return error.get("type"), error[0].tag.rpartition("}")[2]


TOO_MANY = ("cancel", "not-allowed")
NAMES = [f"i{number}" for number in range(7_000)]
STAGE = "<txn xmlns='urn:x-pubqueue:0' app='spark' version='1' part='0' attempt='0'/>"


@pytest.mark.parametrize(
    ("names", "beside"),
    [
        pytest.param(NAMES[: MAX_PUBLISHED + 1], "", id="items"),
        pytest.param(NAMES[:4_000], "", id="thousands of items"),
        pytest.param([f"{LONG}{n}" for n in range(320)], "", id="long ids"),
        pytest.param(NAMES[: MAX_PUBLISHED + 1], STAGE, id="staged"),
        pytest.param([f"{LONG}{n}" for n in range(320)], STAGE, id="staged with long ids"),
    ],
)
@pytest.mark.covers("P-016")
async def test_a_publish_that_is_refused_as_too_large_has_committed_nothing(stage, names, beside):
    for _ in range(2):  # as one does who is asked to try again
        assert await ask(stage, publish(names, beside)) == TOO_MANY
    assert await depth(stage) == 0
    usage = await stage.store.read(lambda tx: tx.load(needs_of(waiting={"boss@localhost", ""})))
    assert usage.of[WAITING] == []


async def test_as_many_as_are_allowed_are_published_and_settled_at_once(stage):
    assert await ask(stage, publish(NAMES[:MAX_PUBLISHED])) is None
    assert await depth(stage) == MAX_PUBLISHED
    await hold_all(stage, MAX_PUBLISHED)
    retract = f"<retract node='jobs'>{named('item', NAMES[:MAX_NAMED])}</retract>"
    assert await ask(stage, retract) is None
    assert await depth(stage) == MAX_PUBLISHED - MAX_NAMED


async def hold_all(stage, count):
    """Have the boss hold so many items."""
    await stage.server.send(
        stage.iq("join", f"<subscribe node='jobs' jid='{BOSS}'/><options>{WINDOW}</options>")
    )
    left = count
    while left:
        stanza = (await stage.server.receive()).tree
        left -= stanza.find(".//{*}event//{*}item") is not None


async def held(stage):
    found = await stage.store.read(lambda tx: tx.load(Needs(items={(JOBS, n) for n in NAMES})))
    return sum(item.holder == BOSS for item in found.items)


UNLOCK = "<unlock xmlns='urn:xmpp:pubsub:queueing:0' node='jobs'>{}</unlock>"
RETRACT = "<retract node='jobs'>{}</retract>"


@pytest.mark.covers("R-007", "Q-038")
@pytest.mark.parametrize("words", [UNLOCK, RETRACT], ids=["unlock", "retract"])
async def test_more_ids_than_one_request_takes_settle_nothing(stage, words):
    assert await ask(stage, publish(NAMES[: MAX_NAMED + 1])) is None
    await hold_all(stage, MAX_NAMED + 1)
    for count in (MAX_NAMED + 1, 4_000):  # those beyond are not even looked for
        assert await ask(stage, words.format(named("item", NAMES[:count]))) == TOO_MANY
    assert await held(stage) == await depth(stage) == MAX_NAMED + 1
    assert await ask(stage, words.format(named("item", NAMES[:MAX_NAMED]))) is None


async def test_a_touch_of_too_many_extends_nothing(stage):
    words = f"<touch xmlns='{OURS}' node='jobs'>{named('item', NAMES[: MAX_NAMED + 1])}</touch>"
    top = f"<iq type='set' id='q' from='{BOSS}' to='{SERVICE}'>{words}</iq>"
    await stage.server.send(top)
    error = (await stage.answer("q")).find("{*}error")
    assert (error.get("type"), error[0].tag.rpartition("}")[2]) == TOO_MANY
    assert error.find("{*}text").text.endswith(str(MAX_NAMED))


async def test_a_retract_whose_answer_would_name_too_much_deletes_nothing(stage):
    names = [f"{LONG}{number}" for number in range(320)]
    for at in (0, 160):
        assert await ask(stage, publish(names[at : at + 160])) is None
    retract = f"<retract node='jobs'>{named('item', names)}</retract>"
    wanted = retract.replace("<retract ", f"<retract xmlns:o='{OURS}' o:answer='known' ")
    assert await ask(stage, wanted) == TOO_MANY
    assert await depth(stage) == 320
    assert await ask(stage, retract) is None
    assert await depth(stage) == 0


def affiliations(jids, word):
    entries = "".join(f"<affiliation jid='{jid}' affiliation='{word}'/>" for jid in jids)
    return f"<affiliations node='jobs'>{entries}</affiliations>"


def subscriptions(jids, word):
    entries = "".join(f"<subscription jid='{jid}' subscription='{word}'/>" for jid in jids)
    return f"<subscriptions node='jobs'>{entries}</subscriptions>"


@pytest.mark.parametrize(
    ("many", "error"),
    [
        ([f"a{n}@x" for n in range(MAX_ENTRIES + 1)], ("modify", "bad-request")),
        ([f"{'a' * 900}{n}@x" for n in range(280)], TOO_MANY),
    ],
    ids=["entries", "long names"],
)
async def test_more_entries_than_one_request_takes_change_nothing(stage, many, error):
    assert await ask(stage, affiliations(many, "publisher"), part=OWNER) == error
    assert await ask(stage, subscriptions(many, "subscribed"), part=OWNER) == error
    people = {(JOBS, jid) for jid in many}
    found = await stage.store.read(
        lambda tx: tx.load(needs_of(affiliations=people, subscribers={JOBS}))
    )
    assert (found.of[AFFILIATIONS], found.subscriptions) == ([], [])


async def test_of_entries_that_cannot_all_be_changed_the_answer_fits(stage):
    many = [f"{'a' * 400}{n}@x" for n in range(300)]
    last = affiliations([*many, "boss@localhost"], "publisher")  # a node keeps an owner
    assert await ask(stage, last, part=OWNER) == ("modify", "not-acceptable")
    found = await stage.store.read(
        lambda tx: tx.load(needs_of(affiliations={(JOBS, jid) for jid in many}))
    )
    assert {row.affiliation for row in found.of[AFFILIATIONS]} == {Affiliation.PUBLISHER}
