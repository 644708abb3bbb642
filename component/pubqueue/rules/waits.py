"""Items that are held until a signal comes, or their time is over; and the signals.

Its holder says what an item waits for, with the right by which it may unlock the item. A signal is for publishers and owners of the node, and
for the author of the item; to all others the answer is the same whether the item exists or not. One that comes before the item is held is
kept until the item is held for it, so a worker that asks need not be quicker than the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model import changes as c
from pubqueue.model.decision import Decision, Done, Refusal, Refused, Request, Signaled, refuse
from pubqueue.model.entities import State, later
from pubqueue.model.joins import JoinDead
from pubqueue.model.notices import Unlocked
from pubqueue.model.sums import DAMAGED
from pubqueue.model.waits import (
    MAX_DATA,
    MAX_KEPT,
    MAX_NAME,
    MAX_NAMES,
    MAX_OF_JOIN,
    MAX_SIGNALS,
    NO_WAIT,
    AtDeadline,
    Came,
    bytes_of,
    size_of,
)
from pubqueue.rules import access
from pubqueue.rules.give_back import give_up
from pubqueue.rules.room import Growth, full
from pubqueue.rules.settle import SettleFacts, Verb, judge, to_holders
from pubqueue_xeps.wire.names import ILLEGAL, is_clean

if TYPE_CHECKING:
    from pubqueue.model.entities import (
        Affiliation,
        Awaited,
        Item,
        ItemId,
        Millis,
        Node,
        NodeName,
        Principal,
    )
    from pubqueue.model.waits import Wait
    from pubqueue.rules.give_back import Case
    from pubqueue.rules.room import Allowance

NOTHING: Final = "hold: an item waits for a signal, for a time, or for both"
OVER: Final = "the link is over: the item waits for it no more"
UNANSWERED: Final = "no signal came in time"
NOT_ALL_DONE: Final = "not all that it waits for was done in time"
MEMBER_DIED: Final = "an item that it waits for is dead"


class Hold(Request, frozen=True, gc=False):
    """Let an item wait for one of these `signals`, for up to the time `within`; then is what becomes of it after that time.

    No failure is counted, and those so far are forgotten: this step of its work is done. Its next worker gets `carry`, None for what it
    carries already. `token` names the lock, as in `Settle`.
    """

    by: Principal
    node: NodeName
    id: ItemId
    signals: tuple[str, ...] = ()
    within: Millis | None = None
    then: AtDeadline = AtDeadline.DELIVER
    carry: str | None = None
    token: int | None = None

    @property
    def ids(self) -> tuple[ItemId, ...]:
        """The item, as requests of several name theirs."""
        return (self.id,)


class HoldFacts(Struct, frozen=True, gc=False):
    """The item as for an unlock, and what the account that created the node may keep; None for any amount."""

    settle: SettleFacts
    allowance: Allowance | None = None


def hold(request: Hold, facts: HoldFacts) -> Decision:
    """Decide whether the item is held. If it has been signaled already, it waits for a worker again at once."""
    node = judge(request.by, Verb.UNLOCK, facts.settle, token=request.token)
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    (item,) = [item for item in facts.settle.items if item is not None]
    now = facts.settle.now
    wait = _begun(request, (item.wait or NO_WAIT).over(), now)
    if (no := _beyond(node, wait.size - size_of(item.wait), facts.allowance)) is not None:
        return Decision(no)
    due = None if request.within is None else later(now, request.within)
    held = c.Hold(item, wait, due)
    return Decision(Done(), (held,), to_holders(Unlocked, node.name, (item,)))


def _begun(request: Hold, wait: Wait, now: Millis) -> Wait:
    carry = wait.carry if request.carry is None else request.carry
    begun = replace(wait, signals=request.signals, since=now, then=request.then, carry=carry)
    return replace(begun, holds=wait.holds + 1)


def _beyond(node: Node, more: int, allowance: Allowance | None) -> Refused | None:
    """Refuse to keep so many more bytes with an item, as those of a publish are refused."""
    no = full(node, Growth(0, more))
    return no if no is not None or allowance is None else allowance.refuses(0, more)


def fault_of_hold(request: Hold) -> Refused | None:
    """Refuse names and texts beyond their bounds, and an item that would wait for nothing."""
    if (no := _of_names(request.signals)) is not None:
        return no
    if not request.signals and request.within is None:
        return Refused(Refusal.BAD_REQUEST, NOTHING)
    return _of_text("carry", request.carry or "")


def fault_of_awaited(what: Awaited, delay: Millis) -> Refused | None:
    """Refuse to publish an item held for nothing, or for names beyond their bounds, or delayed too."""
    if not what.signals and what.within is None and not what.is_join:
        return Refused(Refusal.BAD_REQUEST, NOTHING)
    if delay:
        return Refused(Refusal.BAD_REQUEST, "hold: an item that is held is not delayed")
    return _of_names(what.signals)


def _of_names(signals: tuple[str, ...]) -> Refused | None:
    if len(set(signals)) > MAX_NAMES:
        return Refused(Refusal.BAD_REQUEST, f"hold: an item waits for up to {MAX_NAMES} signals")
    if not all(map(is_signal, signals)):
        return name_refused("signal")
    return None


def name_refused(what: str) -> Refused:
    """Return the refusal of a text that cannot be the name, or the id, of a signal."""
    reason = f"{what}: a name of 1 to {MAX_NAME} bytes, without control characters"
    return Refused(Refusal.BAD_REQUEST, reason, setting=what)


def _of_text(what: str, text: str) -> Refused | None:
    if ILLEGAL.search(text) is not None:
        reason = f"{what}: it has a character that XML cannot carry"
        return Refused(Refusal.BAD_REQUEST, reason, setting=what)
    if bytes_of(text) > MAX_DATA:
        reason = f"{what}: up to {MAX_DATA} bytes"
        return Refused(Refusal.PAYLOAD_TOO_BIG, reason, limit=MAX_DATA, setting=what)
    return None


def is_signal(name: str) -> bool:
    """Return whether this can be the name or the id of a signal."""
    return bool(name) and is_clean(name) and len(name.encode()) <= MAX_NAME


class Bearer(Struct, frozen=True, gc=False):
    """What a link to signal is for: the item of this number, the wait that is its `step`th, and no moment from `until` on."""

    seq: int
    step: int
    until: Millis

    def is_over(self, item: Item, now: Millis) -> bool:
        """Return whether the link has no effect any more: its time is over, or the item has been woken, or is another one."""
        holds = (item.wait or NO_WAIT).holds
        step = holds if item.state is State.HELD else holds + 1
        return now >= self.until or item.seq != self.seq or step != self.step


class Signal(Request, frozen=True, gc=False):
    """Send an item a signal, with data. A repeated one, under the same `signal_id`, counts once. `bearer`: it comes by a link."""

    by: Principal
    node: NodeName
    id: ItemId
    name: str
    data: str
    signal_id: str
    bearer: Bearer | None = None


class SignalFacts(Struct, frozen=True, gc=False):
    """The item, None if it does not exist, and the account's affiliation with its node. `allowance` is as for a hold."""

    now: Millis
    node: Node | None
    affiliation: Affiliation
    item: Item | None
    allowance: Allowance | None = None


def signal(request: Signal, facts: SignalFacts) -> Decision:
    """Decide whether the signal is kept, and whether it wakes the item."""
    no = access.no_way_to_item(request.by, facts.node, facts.affiliation, facts.item)
    if no is not None:
        return refuse(no)
    node, item = facts.node, facts.item
    assert node is not None  # else there is no way in
    if item is None:
        return refuse(Refusal.ITEM_NOT_FOUND)
    wait = item.wait or NO_WAIT
    if wait.damaged:
        return refuse(Refusal.STORE_FAILED, DAMAGED)
    if wait.has(request.signal_id):
        return Decision(Signaled(node.name, item.id, item.state, again=True))
    if request.bearer is not None and request.bearer.is_over(item, facts.now):
        return refuse(Refusal.ITEM_NOT_FOUND, OVER)
    came = Came(request.signal_id, request.name, request.data, request.by.account, facts.now)
    if not wait.has_room(came):
        most = MAX_KEPT if wait.join is None else MAX_OF_JOIN
        reason = f"an item keeps up to {MAX_SIGNALS} signals with {most} bytes in all"
        return refuse(Refusal.TOO_MANY_SIGNALS, reason)
    if (no_room := _beyond(node, came.size, facts.allowance)) is not None:
        return Decision(no_room)
    wakes = item.state is State.HELD and request.name in wait.signals
    state = State.QUEUED if wakes else item.state
    reply = Signaled(node.name, item.id, state, wakes=wakes)
    return Decision(reply, (c.TakeSignal(item, came, wakes),))


def fault_of_signal(request: Signal) -> Refused | None:
    """Refuse names and data beyond their bounds."""
    for what, name in (("signal", request.name), ("id", request.signal_id)):
        if not is_signal(name):
            return name_refused(what)
    return _of_text("data", request.data)


def ends(item: Item) -> bool:
    """Return whether an item whose time is over does not go to a worker."""
    held = item.state is State.HELD and item.wait is not None
    return held and item.wait is not None and item.wait.then is not AtDeadline.DELIVER


def end(case: Case, now: Millis) -> c.Change:
    """End a held item for which no signal came in time: it is dead, or discarded."""
    wait = case.item.wait
    if wait is not None and wait.then is AtDeadline.DISCARD:
        return c.RemoveItem(case.item)
    why = UNANSWERED
    if wait is not None and wait.join is not None:
        fails = wait.join.dead > 0 and case.node.config.join_dead is JoinDead.FAIL
        why = MEMBER_DIED if fails else NOT_ALL_DONE
    return give_up(case, now, why, failed=case.item.failed)
