"""The worker against a scripted service behind a real Prosody."""

import asyncio

import msgspec
import pytest
from harness.servers.queue_service import in_turn, refuse, result

from pubqueue_xeps.errors import LockLost, NotConfirmed, Refused

pytestmark = pytest.mark.e2e


async def test_a_fault_of_the_service_ends_a_retract_at_once(service, worker_of):
    service.script["retract"] = lambda iq: [refuse(iq, "internal-server-error")]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(Refused, match="'i1' was refused: internal-server-error"):
            await item.retract()


async def leave(item):
    async with item:
        pass


async def test_it_subscribes_its_full_jid_with_its_window_and_sends_presence(service, worker_of):
    async with worker_of(requests=3) as worker:
        iq = await service.next("subscribe")
        assert iq[0][0].get("jid") == "bot@localhost/one" == worker.jid
        assert iq.findtext(".//{*}field[@var='pubsub#queue_requests']/{*}value") == "3"
        presence = await service.next("available")
        assert presence.get("from") == "bot@localhost/one"


async def test_a_random_resource_is_chosen_where_the_jid_has_none(service, worker_of):
    async with worker_of(jid="bot@localhost") as worker:
        assert worker.jid.startswith("bot@localhost/worker-")


async def test_an_item_has_the_facts_that_the_service_sends(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", "<job xmlns='x'>1 &lt; 2</job>", token=17, attempt=2)
        item = await anext(worker)
    assert (item.id, item.node, item.publisher) == ("i1", "jobs", "etl@localhost")
    assert (item.payload.tag, item.payload.text) == ("{x}job", "1 < 2")
    assert (item.token, item.attempt) == (17, 2)
    assert item.deadline.isoformat() == "2100-01-01T00:00:00+00:00"
    assert item.published.isoformat() == "2000-01-01T00:00:00+00:00"


async def test_an_item_of_a_service_without_locks_has_fewer_facts(service, worker_of):
    async with worker_of() as worker:
        service.send(service.event(worker.jid, "<item id='i1'/>"))
        item = await anext(worker)
    assert (item.payload, item.publisher, item.attempt) == (None, None, 1)
    assert (item.token, item.deadline, item.published) == (None, None, None)


class Job(msgspec.Struct):
    nr: int
    text: str = ""


async def test_a_payload_is_an_element_or_bytes_or_a_struct(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", "<job xmlns='x' nr='7'>1 &lt; ü</job>")
        async with await anext(worker) as item:
            assert item.payload.get("nr") == "7"
            assert item.bytes.decode() == '<ns0:job xmlns:ns0="x" nr="7">1 &lt; ü</ns0:job>'
            assert item.decode(Job) == Job(7, "1 < ü")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<job/>", "The payload has no field 'nr'."),
        ("", "The item has no payload."),
    ],
)
async def test_an_item_that_cannot_be_read_is_rejected(service, worker_of, content, reason):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", content)
        async with await anext(worker) as item:
            item.decode(Job)
        outcome = (await service.next("unlock"))[0][2]
        assert dict(outcome.attrib) == {"type": "reject", "reason": reason}


async def test_a_clean_exit_retracts_and_waits_for_the_delete_notification(service, worker_of):
    service.script["retract"] = lambda iq: []
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        left = asyncio.create_task(leave(item))
        iq = await service.next("retract")
        assert iq.get("type") == "set"
        assert iq[0][0].get("node") == "jobs"
        service.send(
            f"<iq type='result' id='{iq.get('id')}' from='queue.localhost' to='{worker.jid}'/>"
        )
        await service.heard(worker.jid)
        assert item.state == "in hand"
        service.send(service.retracted(iq))
        await left
        assert item.state == "retracted"


async def test_an_exception_unlocks_and_goes_on_its_way(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        with pytest.raises(ZeroDivisionError):
            async with await anext(worker) as item:
                item.attempt / 0
        assert item.state == "unlocked"
        iq = await service.next("unlock")
        assert (iq.get("type"), iq[0][0].get("node"), iq[0][0][0].get("id")) == (
            "set",
            "jobs",
            "i1",
        )
        assert iq[0][0].tag == iq[0][0][0].tag.replace("item", "unlock")


async def fail(item):
    with pytest.raises(KeyError):
        async with item:
            raise KeyError


@pytest.mark.parametrize("refused", [True, False], ids=["refused for now", "without an answer"])
async def test_an_unlock_is_asked_again_after_the_error_has_gone_on_its_way(
    service, worker_of, refused
):
    """However long the service cannot take it: nobody works on the item, and its lock may last for hours."""
    away = True

    def unlock(iq):
        if away:
            return [refuse(iq, "service-unavailable")] if refused else []
        return [result(iq), service.unlocked(iq)]

    service.script["unlock"] = unlock
    async with worker_of(timings={"parting": 0.01, "answer": 0.05}) as worker:
        service.deliver(worker.jid, "i1", token=17)
        item = await anext(worker)
        await fail(item)
        first = await service.next("unlock")
        assert item.state == "in hand"
        away = False
        again = await service.next("unlock")
        assert [each[0][2].get("type") for each in (first, again)] == ["failed", "failed"]
        await worker.drain()
        assert item.state == "unlocked"


async def test_a_worker_that_ends_asks_once_more_for_an_unlock_and_waits_for_no_answer(
    service, worker_of
):
    service.script["unlock"] = lambda iq: []
    async with worker_of(timings={"parting": 0.01}) as worker:
        service.deliver(worker.jid, "i1")
        await fail(await anext(worker))
        await service.next("unlock")
    assert await left(service) == ["unlock"]


async def test_ids_and_nodes_are_escaped(service, worker_of):
    odd = "a'b\"c<&>d"
    async with worker_of() as worker:
        escaped = "a&apos;b&quot;c&lt;&amp;&gt;d"
        service.deliver(worker.jid, escaped)
        async with await anext(worker) as item:
            assert item.id == odd
        assert (await service.next("retract")).find(".//{*}item").get("id") == odd


async def test_a_lost_delete_notification_is_asked_for(service, worker_of):
    """The second retract answers item-not-found: the first one, accepted, did its work."""
    service.script["retract"] = in_turn(
        lambda iq: [result(iq)], lambda iq: [refuse(iq, "item-not-found")]
    )
    async with worker_of(timings={"answer": 0.5}) as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            pass
        assert item.state == "retracted"


async def test_a_lost_answer_is_asked_for(service, worker_of):
    service.script["retract"] = in_turn(
        lambda iq: [], lambda iq: [result(iq), service.retracted(iq)]
    )
    async with worker_of(timings={"answer": 0.5}) as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            pass
        assert item.state == "retracted"


async def test_a_service_that_is_away_is_asked_again(service, worker_of):
    service.script["retract"] = in_turn(
        lambda iq: [refuse(iq, "remote-server-timeout")],
        lambda iq: [result(iq), service.retracted(iq)],
    )
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            pass
        assert item.state == "retracted"


async def test_a_delivery_that_comes_twice_is_worked_once(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=17)
        item = await anext(worker)
        for name in ("i1", "i2"):
            service.deliver(worker.jid, name, token=17)
        assert (await anext(worker)).id == "i2"
        assert item.state == "in hand"


async def test_an_item_that_returns_after_its_work_was_done_is_only_retracted(service, worker_of):
    service.script["retract"] = lambda iq: []
    async with worker_of(timings={"patience": 0.2}) as worker:
        service.deliver(worker.jid, "i1", token=17)
        with pytest.raises(NotConfirmed):
            await (await anext(worker)).retract()
        service.seen.clear()
        service.deliver(worker.jid, "i1", token=17)
        again = await service.next("retract")
        assert (again[0][0][0].get("id"), again.find(".//{urn:x-pubqueue:0}lock").get("token")) == (
            "i1",
            "17",
        )
        service.deliver(worker.jid, "i1", token=18, attempt=2)
        assert (await anext(worker)).attempt == 2


async def test_what_comes_again_after_its_end_was_confirmed_is_not_worked_again(service, worker_of):
    """As when another process of the service sends again what it does not know to be told."""
    async with worker_of() as worker:
        for name in ("i1", "i2"):
            service.deliver(worker.jid, name, token=17)
            async with await anext(worker):
                pass
        service.deliver(worker.jid, "i1", token=17)
        service.deliver(worker.jid, "i1", token=18, attempt=2)
        assert (await anext(worker)).token == 18


async def test_a_delivery_under_an_older_lock_leaves_the_newer_one_as_it_is(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=18, attempt=2)
        item = await anext(worker)
        service.deliver(worker.jid, "i1", token=17)
        service.deliver(worker.jid, "i2", token=19)
        assert (await anext(worker)).id == "i2"
        assert (item.token, item.state) == (18, "in hand")


async def test_patience_has_an_end(service, worker_of):
    service.script["retract"] = lambda iq: []
    async with worker_of(timings={"patience": 0.2}) as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(NotConfirmed, match="'i1' was not confirmed in time") as raised:
            await item.retract()
        assert (raised.value.node, raised.value.id) == ("jobs", "i1")


async def left(service):
    """Return what was asked about items, in order, until the worker was unavailable."""
    asked = []
    while (found := await service.next("retract", "unlock", "unavailable")).tag.endswith("iq"):
        asked.append(found[0][0].tag.rpartition("}")[2])
    return asked


async def test_a_worker_that_ends_repeats_a_retract_without_an_answer_and_unlocks_nothing_done(
    service, worker_of
):
    service.script["retract"] = lambda iq: []
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        retracting = asyncio.create_task(item.retract())
        await service.next("retract")
    assert await left(service) == ["retract"]
    retracting.cancel()
    await asyncio.gather(retracting, return_exceptions=True)


@pytest.mark.parametrize("patience", [0.2, 60], ids=["not confirmed", "cancelled"])
async def test_an_item_whose_retract_had_no_answer_is_not_unlocked(service, worker_of, patience):
    """Neither by the error that leaves the block, nor by a copy that comes when the worker has stopped."""
    service.script["retract"] = lambda iq: []
    async with worker_of(timings={"patience": patience}) as worker:
        service.deliver(worker.jid, "i1", token=17)
        with pytest.raises((NotConfirmed, TimeoutError)):
            async with await anext(worker) as item, asyncio.timeout(1):
                await item.retract()
        with pytest.raises(NotConfirmed, match="may be done"):
            await item.unlock()
        worker.stop()
        service.deliver(worker.jid, "i1", token=17)
        for _ in range(4):  # by the handler, by each of the unlocks, and for the copy
            await service.next("retract")
    assert "unlock" not in await left(service)


@pytest.mark.parametrize(
    "condition", ["conflict", "unexpected-request", "item-not-found", "forbidden"]
)
async def test_a_late_retract_raises_lock_lost(service, worker_of, condition):
    service.script["retract"] = lambda iq: [refuse(iq, condition)]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(LockLost, match="'i1' is no longer locked to this worker") as raised:
            await item.retract()
        assert (raised.value.node, raised.value.id) == ("jobs", "i1")
        assert item.state == "lost"


async def test_a_late_retract_by_leaving_the_block_is_not_fatal(service, worker_of):
    service.script["retract"] = lambda iq: [refuse(iq, "conflict")]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            pass
        assert item.state == "lost"


async def test_a_refusal_for_another_reason_is_reported(service, worker_of):
    service.script["retract"] = lambda iq: [refuse(iq, "bad-request", "item-required")]
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        with pytest.raises(Refused, match="was refused: bad-request, item-required") as raised:
            await item.retract()
        error = raised.value
        assert (error.condition, error.node, error.id) == ("item-required", "jobs", "i1")


async def test_settling_twice_asks_once(service, worker_of):
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1")
        async with await anext(worker) as item:
            await item.retract()
            await item.retract()
            with pytest.raises(LockLost, match="is retracted already"):
                await item.unlock()
    await service.next("retract")
    asked = await service.next("retract", "unlock", "unavailable")
    assert asked.get("type") == "unavailable"


async def test_a_copy_of_an_item_in_hand_is_dropped_and_renews_its_lock(service, worker_of):
    async with worker_of(requests=2) as worker:
        service.deliver(worker.jid, "i1", token=1)
        first = await anext(worker)
        service.deliver(worker.jid, "i1", token=2, attempt=2)
        service.deliver(worker.jid, "i2")
        assert (await anext(worker)).id == "i2"
        assert (first.token, first.attempt) == (2, 2)


async def test_another_item_under_the_id_of_one_in_hand_makes_that_one_lost(service, worker_of):
    async with worker_of(requests=2) as worker:
        service.deliver(worker.jid, "i1", "<old/>")
        old = await anext(worker)
        service.deliver(worker.jid, "i1", "<new/>")
        new = await anext(worker)
        assert (old.state, new.state) == ("lost", "in hand")
        with pytest.raises(LockLost):
            await old.retract()
        await new.retract()


async def test_an_unlocked_item_may_come_right_back(service, worker_of):
    def again(iq):
        return [result(iq), service.event(worker.jid, "<item id='i1'/>")]

    service.script["unlock"] = again
    async with worker_of() as worker:
        service.send(service.event(worker.jid, "<item id='i1'/>"))
        first = await anext(worker)
        await first.unlock()
        assert (await anext(worker)).id == "i1"


def token(iq):
    return iq.find(".//{urn:x-pubqueue:0}lock").get("token")


async def test_a_retract_that_met_a_new_lock_of_ours_is_asked_again_for_that(service, worker_of):
    """The lock timed out, and the item came back to the same worker while its retract was asked."""

    def relock(iq):
        service.deliver(worker.jid, "i1", token=2, attempt=2)
        return [refuse(iq, "unexpected-request")]

    service.script["retract"] = in_turn(relock, lambda iq: [result(iq), service.retracted(iq)])
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=1)
        async with await anext(worker) as item:
            pass
        assert [token(await service.next("retract")) for _ in range(2)] == ["1", "2"]
        assert (item.state, item.token) == ("retracted", 2)


async def test_an_unlock_without_an_answer_is_answered_by_the_item_that_comes_back(
    service, worker_of
):
    """And is not repeated: what has come back is another piece of work."""

    def free(iq):
        service.deliver(worker.jid, "i1", token=2, attempt=2)
        return []

    service.script["unlock"] = free
    async with worker_of() as worker:
        service.deliver(worker.jid, "i1", token=1)
        item = await anext(worker)
        await item.unlock()
        async with await anext(worker) as again:
            assert (item.state, again.id, again.token) == ("unlocked", "i1", 2)
    await service.next("unlock")
    assert token(await service.next("unlock", "retract")) == "2"


@pytest.mark.parametrize("namespace", ["urn:xmpp:pubsub:queueing:0", "urn:xmpp:queueing:0"])
async def test_a_lock_that_timed_out_loses_the_item_and_a_new_one_brings_it_back(
    service, worker_of, namespace
):
    async with worker_of(requests=2) as worker:
        service.deliver(worker.jid, "i1")
        item = await anext(worker)
        service.send(service.event(worker.jid, f"<unlock xmlns='{namespace}' id='i1'/>"))
        service.deliver(worker.jid, "i2")
        await anext(worker)
        assert item.state == "lost"
        service.deliver(worker.jid, "i1", attempt=2)
        service.deliver(worker.jid, "i3")
        await anext(worker)
        await item.retract()
        assert item.state == "retracted"


async def test_an_item_lost_before_it_was_begun_is_not_begun(service, worker_of):
    async with worker_of(requests=2) as worker:
        service.deliver(worker.jid, "i1")
        service.send(service.event(worker.jid, "<retract id='i1'/>"))
        await service.heard(worker.jid)
        service.deliver(worker.jid, "i2")
        assert (await anext(worker)).id == "i2"


async def test_events_of_strangers_and_of_other_nodes_are_not_ours(service, worker_of):
    async with worker_of() as worker:
        stranger = service.event(worker.jid, "<item id='i1'/>")
        service.send(
            stranger.replace("from='queue.localhost'", "from='x@queue.localhost'"),
            stranger.replace("node='jobs'", "node='else'"),
        )
        service.deliver(worker.jid, "i2")
        assert (await anext(worker)).id == "i2"
