"""Handlers as they are declared, and at work against a scripted service behind a real Prosody."""

import asyncio
import functools
import json
import logging
import threading
from types import SimpleNamespace
from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest
from harness.patience import until
from harness.servers.queue_service import stamp, verb_of
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.handlers import (
    ANY,
    HOLDS,
    Criterion,
    CriterionKind,
    Handlers,
    Work,
    choose,
    kind_of,
    work_of,
)
from pubqueue_xeps.middleware import handler_name
from pubqueue_xeps.wire.refusals import Failed, Reject, Release


class Job(msgspec.Struct):
    nr: int = 0


async def takes_all(item: object) -> None:
    """Do nothing."""


async def takes_three(item: object, payload: Job, more: int) -> None:
    """Do nothing."""


async def takes_anything(item, payload):
    """Do nothing."""


async def takes_unknown(item: object, payload: "Nowhere") -> None:  # noqa: F821
    """Do nothing."""


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"element": "{x}job", "header": "kind"}, "one of these"),
        ({"name": "job", "equals": "x"}, "the value of a JSON field or of a header"),
        ({"equals": "x"}, "the value of a JSON field or of a header"),
        ({"json": "type", "equals": ["x"]}, "a string, a number"),
        ({"header": ""}, "must not be empty"),
        ({"node": ""}, "A handler's node must not be empty"),
        ({"node": ["jobs", ""]}, "A handler's node must not be empty"),
        ({"node": []}, "A handler's node must not be empty"),
        ({"retries": -1}, "retries is -1; it takes a whole number, 0 or more"),
    ],
)
def test_a_handler_of_impossible_items_is_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Handlers().handler(**wrong)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (takes_three, r"takes_three takes \(item\) or \(item, payload: SomeType\)"),
        (takes_anything, "takes_anything takes a payload without a type"),
        (takes_unknown, "names 'Nowhere', which is not known at the top of its module"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(function, sentence):
    with pytest.raises(TypeError, match=sentence):
        Handlers().handler("job")(function)


def test_two_handlers_of_the_same_items_are_refused():
    app = Handlers()
    app.handler("job")(takes_all)
    app.handler("other")(takes_all)
    with pytest.raises(ValueError, match="The handlers job and job are of the same items"):
        app.handler("job")(takes_all)


@pytest.mark.parametrize(("one", "other"), [(True, 1), (False, 0), (1, True), (0.0, False)])
def test_true_and_one_are_different_items(one, other):
    app = Handlers()

    @app.handler(json="urgent", equals=one)
    async def first(item): ...

    @app.handler(json="urgent", equals=other)
    async def second(item): ...

    def chosen(value):
        payload = Element("{urn:xmpp:json:0}json")
        payload.text = json.dumps({"urgent": value})
        return app.choose(SimpleNamespace(payload=payload, headers={}, node="jobs")).name

    assert [chosen(one), chosen(other)] == ["first", "second"]


def test_one_is_one_however_it_is_written():
    app = Handlers()
    app.handler(json="urgent", equals=1)(takes_all)
    with pytest.raises(ValueError, match="of the same items"):
        app.handler(json="urgent", equals=1.0)(takes_all)


def item_of(node, payload="<job/>"):
    return SimpleNamespace(payload=fromstring(payload), headers={}, node=node)


def test_a_handler_takes_items_of_its_nodes_only():
    app = Handlers()
    app.handler("job", node=["jobs", "more"])(takes_all)

    @app.handler("job", node="mails")
    async def mails(item): ...

    found = [app.choose(item_of(node)).name for node in ("jobs", "more", "mails", "others")]
    assert found == ["job", "job", "job", "nobody"]
    assert app.choose(item_of("mails")).function is mails
    assert (app.nodes, len(app)) == (("jobs", "more", "mails"), 2)


def test_the_node_decides_only_between_handlers_that_match_in_the_same_way():
    app = Handlers()

    @app.handler()
    async def rest(item): ...

    @app.handler(node="mails")
    async def rest_of_mails(item): ...

    @app.handler("job")
    async def job(item): ...

    chosen = [
        app.choose(item_of(node, payload)).function
        for node in ("mails", "jobs")
        for payload in ("<job/>", "<mail/>")
    ]
    assert chosen == [job, rest_of_mails, job, rest]


def test_two_handlers_of_the_same_items_of_a_node_are_refused():
    app = Handlers()
    app.handler("job", node=["jobs", "mails"])(takes_all)
    app.handler("job", node="others")(takes_all)
    with pytest.raises(ValueError, match="are of the same items"):
        app.handler("job", node="mails")(takes_all)


def test_a_node_is_a_text():
    with pytest.raises(TypeError, match="node is 7; it takes"):
        Handlers().handler(node=7)


def test_a_node_that_no_handler_names_is_reported_if_all_name_theirs():
    app = Handlers()
    app.check(["anything"])  # there are no handlers at all
    app.handler(node="jobs")(takes_all)
    app.check(["jobs"])
    with pytest.raises(ConfigurationError, match="of the node 'mails': the handlers name jobs"):
        app.check(["jobs", "mails"])
    app.handler("job")(takes_all)
    app.check(["jobs", "mails"])


def test_a_decorator_without_its_parentheses_raises_an_error():
    with pytest.raises(TypeError, match="with its parentheses"):
        Handlers().handler(takes_all)


def test_unknown_items_are_handed_out_once_at_least():
    with pytest.raises(ValueError, match="unknown_tries is 0; it takes a whole number, 1 or more"):
        Handlers(unknown_tries=0)


def test_the_function_stays_as_it_is_and_its_second_argument_is_the_payload():
    app = Handlers()

    class Callable:
        async def __call__(self, item: object, payload: Job) -> None:
            """Do nothing."""

    def blocks(item: object, payload: Element, more: int = 1) -> None:
        """Do nothing."""

    assert app.handler("job")(takes_all) is takes_all
    app.handler("struct")(Callable())
    app.handler()(blocks)
    seen = [(it.name, it.wanted, it.blocking) for it in app.declared()]
    assert seen[1:] == [("struct", Job, False), ("blocks", Element, True)]
    assert (seen[0][0], seen[0][2], len(app)) == ("job", False, 3)


def outcome(unlock):
    said = unlock.find(".//{urn:x-pubqueue:0}outcome")
    return {} if said is None else dict(said.attrib)


@pytest.fixture
def working(worker_of):
    """Run a worker with these handlers until the block ends."""

    class Working:
        def __init__(self, app, **settings):
            self.worker = worker_of(**({"requests": 10} | settings))
            self.app = app

        async def __aenter__(self):
            await self.worker.__aenter__()
            self.task = asyncio.create_task(self.worker.run(self.app))
            return self.worker

        async def __aexit__(self, *error):
            self.worker.stop()
            await self.task
            await self.worker.__aexit__(*error)

    return Working


@pytest.mark.e2e
async def test_each_item_goes_to_its_handler_with_its_payload(service, working):
    app, done = Handlers(), {}

    @app.handler("job")
    async def job(item: object, payload: Job) -> None:
        done[item.id] = ("job", payload)

    @app.handler(element="{urn:mail}mail")
    def mail(item: object, payload: Element) -> None:
        done[item.id] = ("mail", payload.get("to"))

    @app.handler()
    async def rest(item):
        done[item.id] = ("rest", item.attempt)

    async with working(app) as worker:
        service.deliver(worker.jid, "i1", "<job xmlns='x' nr='7'/>")
        service.deliver(worker.jid, "i2", "<mail xmlns='urn:mail' to='a'/>")
        service.deliver(worker.jid, "i3", "<mail xmlns='urn:other'/>")
        for _ in range(3):
            await service.next("retract")
    assert done == {"i1": ("job", Job(7)), "i2": ("mail", "a"), "i3": ("rest", 1)}


@pytest.mark.e2e
async def test_an_unreadable_payload_is_rejected(service, working):
    app = Handlers()

    @app.handler()
    async def job(item: object, payload: Job) -> None:
        raise AssertionError

    async with working(app) as worker:
        service.deliver(worker.jid, "i1", "<job xmlns='x' nr='seven'/>")
        unlock = await service.next("unlock")
    reason = "The field 'nr' of the payload cannot be read: it is no `int`."
    assert outcome(unlock) == {"type": "reject", "reason": reason}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (1, {"type": "release", "delay": "1.000"}),
        (4, {"type": "release", "delay": "8.000"}),
        (19, {"type": "release", "delay": "60.000"}),
        (20, {"type": "reject"}),
    ],
)
async def test_what_no_handler_knows_is_given_back_ever_more_slowly_and_dead_at_last(
    service, working, caplog, attempt, expected
):
    app = Handlers()
    app.handler("other")(takes_all)
    async with working(app) as worker:
        service.deliver(worker.jid, "i1", "<job xmlns='x'/>", attempt=attempt)
        reported = {"reason": "no handler for {x}job"}
        assert outcome(await service.next("unlock")) == expected | reported
    (said,) = [it.pubqueue for it in caplog.records if it.pubqueue["event"] == "item.no_handler"]
    assert (said["kind"], said["id"], said["attempt"]) == ("{x}job", "i1", attempt)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ('{"type": "mail", "to": "secret"}', "type 'mail'"),
        ('{"to": "secret"}', "JSON without a type"),
        ('{"type": 7}', "JSON without a type"),
        ('["type"]', "JSON without a type"),
        ("no JSON", "JSON without a type"),
        (json.dumps({"type": 999 * "x"}), f"type '{200 * 'x'}'"),
    ],
)
def test_work_is_called_by_its_type(payload, kind):
    element = Element("{urn:xmpp:json:0}json")
    element.text = payload
    assert kind_of(element) == kind


def test_work_without_a_type_is_called_by_its_element():
    assert kind_of(Element("{x}job")) == "{x}job"
    assert kind_of(None) == "an item without payload"


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("raised", "failed", "expected"),
    [
        (ValueError("secret"), "", {"type": "failed", "delay": "10.000", "reason": "ValueError"}),
        (
            ValueError("secret"),
            1,
            {"type": "failed", "delay": "20.000", "reason": "ValueError"},
        ),
        (ValueError("secret"), 2, {"type": "reject", "reason": "ValueError (failed 3 times)"}),
        (Failed("down", 3), "", {"type": "failed", "delay": "3.000", "reason": "down"}),
        (Release(4), 2, {"type": "release", "delay": "4.000"}),
        (Reject("no"), "", {"type": "reject", "reason": "no"}),
    ],
)
async def test_failures_are_retried_by_the_handlers_limits(
    service, working, raised, failed, expected
):
    app = Handlers()

    @app.handler(retries=2, backoff=10)
    async def job(item):
        raise raised

    async with working(app) as worker:
        more = {"failed": failed} if failed else {}
        service.deliver(worker.jid, "i1", **more)
        assert outcome(await service.next("unlock")) == expected


@pytest.mark.e2e
async def test_an_exception_that_is_not_to_be_retried_rejects_the_item(service, working):
    app = Handlers()

    @app.handler(retry_on=ConnectionError)
    async def job(item):
        raise ConnectionResetError if item.id == "i1" else ValueError("secret")

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        assert outcome(await service.next("unlock")) == {
            "type": "failed",
            "reason": "ConnectionResetError",
        }
        service.deliver(worker.jid, "i2")
        expected = {"type": "reject", "reason": "ValueError (not retried)"}
        assert outcome(await service.next("unlock")) == expected


@pytest.mark.e2e
async def test_an_item_that_kills_each_worker_is_not_begun_once_more(service, working):
    app = Handlers()

    @app.handler(retries=2)
    async def job(item):
        raise AssertionError

    async with working(app) as worker:
        service.deliver(worker.jid, "i1", failed=3, attempt=4)
        expected = {"type": "reject", "reason": "failed 3 times"}
        assert outcome(await service.next("unlock")) == expected


@pytest.mark.e2e
async def test_a_coroutine_is_cancelled_when_its_time_is_over(service, working):
    app, cancelled = Handlers(), asyncio.Event()

    @app.handler(time_limit=0.05)
    async def job(item):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        expected = {"type": "failed", "reason": "TimeLimit"}
        assert outcome(await service.next("unlock")) == expected
        assert cancelled.is_set()


@pytest.mark.e2e
async def test_a_timeout_of_the_handlers_own_is_not_taken_for_the_limit(service, working):
    app = Handlers()

    @app.handler(time_limit=60)
    async def job(item):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        expected = {"type": "failed", "reason": "TimeoutError"}
        assert outcome(await service.next("unlock")) == expected


@pytest.mark.e2e
async def test_a_thread_that_outlives_its_time_loses_its_item_and_keeps_its_place(
    service, working, caplog
):
    app, go, begun, done = Handlers(), threading.Event(), [], []

    @app.handler(time_limit=0.05, concurrency=1)
    def job(item):
        begun.append(item.id)
        if item.id == "i1":
            go.wait()
        done.append(item.id)

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        service.deliver(worker.jid, "i2")
        unlock = await service.next("unlock")
        assert unlock.find(".//{*}item").get("id") == "i1"
        assert outcome(unlock) == {"type": "failed", "reason": "TimeLimit"}
        await service.heard(worker.jid)
        await until(lambda: begun)
        assert (begun, done) == (["i1"], [])  # i2 waits for the thread that hangs
        go.set()
        # its thread may be slower than its limit
        assert (await service.next("retract", "unlock")).find(".//{*}item").get("id") == "i2"
        await until(lambda: len(done) == 2)
    assert done == ["i1", "i2"]
    assert "event=handler.orphaned" in caplog.text


@pytest.mark.e2e
async def test_a_blocking_function_blocks_nobody_and_knows_its_context(service, working):
    app, met = Handlers(), threading.Barrier(2)

    @app.handler("job")
    def job(item):
        met.wait(10)

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        service.deliver(worker.jid, "i2")
        for _ in range(2):
            await service.next("retract")


@pytest.mark.e2e
async def test_what_wraps_a_coroutine_function_is_one(service, working):
    app, threads = Handlers(), []

    @app.handler("job")
    @functools.wraps(takes_all)
    def job(item):
        threads.append(threading.current_thread())
        return takes_all(item)

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        await service.next("retract")
    assert threads == [threading.main_thread()]


@pytest.mark.e2e
async def test_a_plain_function_that_returns_a_coroutine_has_failed(service, working):
    app = Handlers()

    @app.handler("job")
    def job(item):
        return takes_all(item)

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        expected = {"type": "failed", "reason": "TypeError"}
        assert outcome(await service.next("unlock")) == expected


@pytest.mark.e2e
async def test_a_handler_with_its_hands_full_lets_others_pass_and_times_out_nothing(
    service, working
):
    app, go, running, most, mails = Handlers(), asyncio.Event(), 0, 0, []

    @app.handler("slow", concurrency=2)
    async def slow(item):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    @app.handler("mail")
    async def mail(item):
        mails.append(item.id)

    async with working(app) as worker:
        for number in range(4):
            service.deliver(worker.jid, f"s{number}", "<slow xmlns='x'/>")
        service.deliver(worker.jid, "short", "<slow xmlns='x'/>", deadline=stamp(2))
        service.deliver(worker.jid, "m1", "<mail xmlns='x'/>")
        # at half of its lock's time what waits goes back, and is nobody's fault; that may be before the mail comes
        both = [await service.next("retract", "unlock") for _ in range(2)]
        said = [(verb_of(it), it.find(".//{*}item").get("id"), outcome(it)) for it in both]
        assert sorted(said) == [("retract", "m1", {}), ("unlock", "short", {})]
        go.set()
        for _ in range(4):
            await service.next("retract")
    assert (most, mails) == (2, ["m1"])


@pytest.mark.e2e
async def test_at_the_end_what_waits_goes_back_and_what_is_begun_is_finished(service, working):
    app, go, begun = Handlers(), asyncio.Event(), asyncio.Event()

    @app.handler(concurrency=1)
    async def job(item):
        begun.set()
        await go.wait()

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        service.deliver(worker.jid, "i2")
        await begun.wait()
        await service.heard(worker.jid)
        worker.stop()
        assert (await service.next("unlock")).find(".//{*}item").get("id") == "i2"
        go.set()
        assert (await service.next("retract")).find(".//{*}item").get("id") == "i1"


@pytest.mark.e2e
async def test_when_the_grace_is_over_the_rest_is_released(service, worker_of):
    app, begun = Handlers(), asyncio.Event()

    @app.handler(retries=0)
    async def job(item):
        begun.set()
        await asyncio.Event().wait()

    async with worker_of(grace=0.05) as worker:
        running = asyncio.create_task(worker.run(app))
        service.deliver(worker.jid, "i1")
        await begun.wait()
        worker.stop()
        assert outcome(await service.next("unlock")) == {"type": "release"}
        await running


@pytest.mark.e2e
async def test_the_text_of_an_exception_stays_in_the_log(service, working, caplog):
    caplog.set_level(logging.ERROR)
    app = Handlers()

    @app.handler("job", retries=0)
    async def job(item):
        raise ValueError("a passenger's name")

    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        expected = {"type": "reject", "reason": "ValueError (failed once)"}
        assert outcome(await service.next("unlock")) == expected
    (record,) = [it for it in caplog.records if "item.failed" in it.getMessage()]
    assert "handler=job" in record.getMessage()
    assert "a passenger's name" not in record.getMessage()


@pytest.mark.e2e
async def test_middleware_is_around_each_handler_and_knows_its_name(service, working):
    seen = []

    async def outer(item, call_next):
        seen.append(f"outer {handler_name.get()}")
        await call_next(item)

    async def inner(item, call_next):
        seen.append(f"inner {handler_name.get()}")
        await call_next(item)

    app = Handlers(outer, inner)

    @app.handler("job")
    def blocking(item):
        seen.append(f"in a thread {handler_name.get()}")

    app.handler("mail")(takes_all)
    async with working(app) as worker:
        service.deliver(worker.jid, "i1")
        await service.next("retract")
        service.deliver(worker.jid, "i2", "<mail xmlns='x'/>")
        await service.next("retract")
        service.deliver(worker.jid, "i3", "<unknown xmlns='x'/>")
        await service.next("unlock")
    assert seen == ["outer job", "inner job", "in a thread job", "outer mail", "inner mail"]


# Which handler an item is for; the rule is restated here as a list of what wins over what.


JSON = "{urn:xmpp:json:0}json"


def in_json(text):
    payload = Element(JSON)
    payload.text = text
    return payload


HEADER = Criterion(CriterionKind.HEADER, "kind", "mail")
FIELD = Criterion(CriterionKind.JSON, "urgent", value=True)
TAGGED = Criterion(CriterionKind.ELEMENT, "{urn:example}job")
NAMED = Criterion(CriterionKind.NAME, "job")
REST = Criterion(CriterionKind.REST)
EVERY = [REST, NAMED, TAGGED, FIELD, HEADER]


@pytest.mark.parametrize(
    ("payload", "headers", "chosen"),
    [
        (fromstring("<job xmlns='urn:example'/>"), {"kind": "mail"}, HEADER),
        (fromstring("<job xmlns='urn:example'/>"), {"kind": "post"}, TAGGED),
        (fromstring("<job xmlns='urn:other'/>"), {}, NAMED),
        (fromstring("<job/>"), {}, NAMED),
        (fromstring("<work/>"), {}, REST),
        (in_json('{"type": "job", "urgent": true}'), {"kind": "mail"}, HEADER),
        (in_json('{"type": "job", "urgent": true}'), {}, FIELD),
        (in_json('{"type": "job", "urgent": 1}'), {}, NAMED),
        (in_json('{"type": "job"}'), {}, NAMED),
        (in_json('{"type": 7}'), {}, REST),
        (in_json('["job"]'), {}, REST),
        (in_json("{no json"), {}, REST),
        (in_json(None), {}, REST),
        (in_json(100_000 * "["), {}, REST),
        (None, {"kind": "mail"}, HEADER),
        (None, {}, REST),
    ],
)
def test_the_more_deliberate_mark_wins(payload, headers, chosen):
    assert choose(EVERY, work_of(payload, headers)) == chosen


def test_a_row_without_marks_belongs_to_none():
    assert choose([HEADER, FIELD, TAGGED, NAMED], work_of(fromstring("<work/>"), {})) is None


def test_json_is_named_by_its_type_and_not_by_its_element():
    assert choose([Criterion(CriterionKind.NAME, "json")], work_of(in_json("{}"), {})) is None
    assert choose([Criterion(CriterionKind.ELEMENT, JSON)], work_of(in_json("{}"), {})) is not None


def test_of_two_marks_of_a_kind_the_first_wins():
    first, second = Criterion(CriterionKind.HEADER, "a"), Criterion(CriterionKind.HEADER, "b", "x")
    work = Work(None, {"a": "1", "b": "x"})
    assert choose([first, second], work) == first
    assert choose([second, first], work) == second


def test_a_value_that_is_null_is_a_value():
    assert (
        choose([Criterion(CriterionKind.JSON, "to", None)], work_of(in_json('{"to": null}'), {}))
        is not None
    )
    assert choose([Criterion(CriterionKind.JSON, "to", None)], work_of(in_json("{}"), {})) is None


NAMES = st.sampled_from(["a", "b", "type"])
VALUES = st.sampled_from(["a", "b", True, False, 0, 1, None])
MARKS = st.one_of(
    st.builds(Criterion, st.just(CriterionKind.HEADER), NAMES, st.sampled_from([ANY, "a", "b"])),
    st.builds(Criterion, st.just(CriterionKind.JSON), NAMES, st.one_of(st.just(ANY), VALUES)),
    st.builds(
        Criterion, st.just(CriterionKind.ELEMENT), st.sampled_from(["a", "{x}a", "{y}b", JSON])
    ),
    st.builds(Criterion, st.just(CriterionKind.NAME), NAMES),
    st.just(REST),
)
HEADERS = st.dictionaries(NAMES, st.sampled_from(["a", "b"]))
WORKS = st.one_of(
    st.builds(Work, st.sampled_from([None, "a", "{x}a", "{y}b"]), HEADERS),
    st.builds(Work, st.just(JSON), HEADERS, st.one_of(st.none(), st.dictionaries(NAMES, VALUES))),
)


def restated(criterion, work):
    """Return whether the work has the criterion, said the other way round: all that the work is known by."""
    known = {("REST", "", None), ("REST", "", ANY)}
    for name, value in work.headers.items():
        known |= {("HEADER", name, ANY), ("HEADER", name, repr(value))}
    for name, value in (work.fields or {}).items():
        known |= {("JSON", name, ANY), ("JSON", name, repr(value))}
        if name == "type" and isinstance(value, str):
            known.add(("NAME", value, ANY))
    if work.tag is not None:
        known.add(("ELEMENT", work.tag, ANY))
        if work.tag != JSON:
            known.add(("NAME", work.tag.split("}")[-1], ANY))
    value = criterion.value if criterion.value is ANY else repr(criterion.value)
    return (criterion.kind.name, criterion.key, value) in known


@given(st.lists(MARKS, max_size=6), WORKS)
def test_the_choice_is_the_first_of_the_best_that_hold(criteria, work):
    for criterion in criteria:
        assert HOLDS[criterion.kind](criterion, work) == restated(criterion, work)
    order = ["HEADER", "JSON", "ELEMENT", "NAME", "REST"]
    held = [criterion for criterion in criteria if restated(criterion, work)]
    best = [criterion for name in order for criterion in held if criterion.kind.name == name]
    assert choose(criteria, work) is (best[0] if best else None)


def test_each_kind_has_its_rule():
    assert set(HOLDS) == set(CriterionKind)
