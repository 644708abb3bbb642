"""Rows that are neither nodes, items nor subscriptions: kept messages, events, quotas, keys, registrations, samples."""

from __future__ import annotations

from enum import StrEnum, unique
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pubqueue.model.entities import (
    Draft,
    Jid,  # msgspec reads them
    Millis,  # msgspec reads them
    Node,  # msgspec reads them
    NodeName,  # msgspec reads them
    seconds,
)
from pubqueue.model.sums import sealed, unsealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pubqueue.model.entities import Headers, ItemId


# A kept message, the totals of an account's, and the bounds of both.
#
# A message is identified by the full JID of its sender and the id that the sender has given it. It is kept until it is delivered or its time
# is over; then the answer to its delivery is remembered, for a sender that repeats the request.

EVERYBODY: Final = ""
"""The account of the totals of all accounts."""

MAX_ID_LENGTH: Final = 1023
"""The maximum bytes of the id of a message, which is at least one."""


MAX_IQ_ID_LENGTH: Final = 64
"""The maximum bytes of the id of a request that is remembered as it is; of a longer one its digest is."""

MAX_REASON_LENGTH: Final = 2_000
"""The maximum characters of the reason in an answer that is remembered: it may repeat what a message has."""


class KeptMessage(Struct, frozen=True, gc=False):
    """A message that was received; `mark` identifies it.

    While it is `held`, its bytes are in the store, and `answer` is empty. When it has ended, `answer` is what its delivery is answered. It is
    forgotten at `until`. `iq_id` (`iq_id_of`) and `digest` distinguish a repetition of its request from a new message under the same id. `message` has its bytes
    only when it is added: they are read by themselves.
    """

    mark: str
    sender: Jid
    account: Jid
    msg_id: str
    iq_id: str
    digest: bytes
    byte_count: int
    held: bool
    answer: str
    until: Millis
    message: bytes = b""


class MessageTotal(Struct, frozen=True, gc=False):
    """How many messages are held of an account, or of all, with their bytes, and how many answers are remembered."""

    account: str
    messages: int = 0
    byte_count: int = 0
    remembered: int = 0


@unique
class AssuredFrom(StrEnum):
    """From whom assured messages are accepted."""

    KNOWN = "known"
    """Administrators, accounts of the component's home domain, and accounts with an affiliation."""
    AFFILIATED = "affiliated"
    """Administrators, and accounts with an affiliation."""
    ANYONE = "anyone"
    """Any account that is not anonymous."""


class MessageLimits(Struct, frozen=True, gc=False):
    """The bounds of kept messages: of one account, and of all."""

    assured_from: AssuredFrom = AssuredFrom.KNOWN
    messages_per_account: int = 1_000
    bytes_per_account: int = 16 << 20
    messages: int = 100_000
    bytes: int = 256 << 20
    kept_for: Millis = seconds(86_400)
    remembered_for: Millis = seconds(86_400)
    remembered_per_account: int = 100_000


MESSAGE_LIMITS: Final = MessageLimits()


@lru_cache(maxsize=1024)
def mark_of(sender: Jid, msg_id: str) -> str:
    """Return what identifies a message; a JID has no line break, so it is unambiguous. Each step of a message asks for it several times."""
    return blake2b(f"{sender}\n{msg_id}".encode(), digest_size=16).hexdigest()


def iq_id_of(request: str) -> str:
    """Return the id of a request as it is remembered: senders choose it, and no total counts it."""
    written = request.encode()
    if len(written) <= MAX_IQ_ID_LENGTH:
        return request
    return blake2b(written, digest_size=16).hexdigest()


class MessageKept(Struct, frozen=True, gc=False):
    """The message is on disk, under this id; its delivery may be asked for."""

    msg_id: str


class MessageDelivered(Struct, frozen=True, gc=False):
    """The message has had its effect, or has ended with this answer, in the words of the face."""

    words: str = ""


class MessageChanged(Struct, frozen=True, gc=False):
    """Another message is held under the id than was read: read it again."""


class MessageRead(Struct, frozen=True, gc=False):
    """The bytes of a message that is held, and their digest; neither if none is held."""

    message: bytes
    digest: bytes


class MessagesEnded(Struct, frozen=True, gc=False):
    """These messages were held, and have ended undelivered; with `more` there may be further ones. `count` is of all slices."""

    held: tuple[KeptMessage, ...]
    more: bool
    count: int = 0


class AccountMessages(Struct, frozen=True, gc=False):
    """How many messages are held of an account, with their bytes, and until when the first of them is held."""

    account: str
    messages: int
    byte_count: int
    until: Millis


class KeptMessages(Struct, frozen=True, gc=False):
    """Accounts of which messages are held, and the totals of all accounts; `more` may follow."""

    accounts: tuple[AccountMessages, ...]
    messages: int
    byte_count: int
    remembered: int
    more: bool = False


Reply = MessageKept | MessageDelivered | MessageChanged | MessageRead | MessagesEnded | KeptMessages


# The record of an answer to a delivery, for the instance that waits for it.


class Answered(Struct, frozen=True, gc=False):
    """The delivery of a lock has `arrived`, or else its bytes were received; to be remembered until the lock is over."""

    token: int
    arrived: bool
    until: Millis


# The entries of a node's event log, as values.


@unique
class EventKind(StrEnum):
    """The type of an event."""

    PUBLISHED = "published"
    DELIVERED = "delivered"
    HELD = "held"
    """It waits for a signal, for a time, or for members; `detail` is what it listens to, and `(members)` of a join."""
    SIGNALED = "signaled"
    """A signal has come for it; `detail` is its name."""
    WOKEN = "woken"
    """What it was held for has come; `detail` is `signal`, `time` or `count`."""
    COMPLETED = "completed"
    """Retracted by its holder, or late by its last holder."""
    UNLOCKED = "unlocked"
    EXPIRED = "expired"
    """The lock timed out."""
    DEAD = "dead"
    REQUEUED = "requeued"
    """A dead item was redriven."""
    RETRACTED = "retracted"
    """Withdrawn: by an owner or its publisher, because of another payload, or because of its age in a plain node."""
    PURGED = "purged"
    """All items of the node are deleted; `detail` is their number."""


class Event(Struct, frozen=True, gc=False):
    """One entry. `age` is the time since the publish, `held` since the delivery, if there was a lock."""

    kind: EventKind
    node: NodeName
    item: ItemId | None = None
    attempt: int | None = None
    worker: Jid | None = None
    publisher: Jid | None = None
    age: Millis | None = None
    held: Millis | None = None
    origin: NodeName | None = None
    to: NodeName | None = None
    detail: str = ""


class PublishedByCommit(Struct, frozen=True, gc=False):
    """A commit makes too many items visible in a node to name them one by one."""

    node: NodeName
    queueing: bool
    publisher: Jid


LogEntry = Event | PublishedByCommit


# A stored bundle of notices for the connections of one instance.


class Forwarded(Struct, frozen=True, gc=False):
    """The notices as bytes. The mark begins with the number of the receiving instance: see `rules.messages`."""

    mark: str
    notices: bytes


# What an account may store here: nodes, items and bytes. The rule is `rules.room`.
#
# The account that created a node pays for it and for all that is in it: items that wait, are locked, delayed or dead. Items that
# are staged for a commit count for their publisher until then, with bounds of their own (`transactions.model.Limits`). An item that
# moves from one node to another moves from one account to the other; if both nodes belong to the same account, no bound is checked.


def weight(payload: bytes, headers: Headers) -> int:
    """Return how many bytes an item counts for: its payload, and the names and values of its headers."""
    if not headers:
        return len(payload)
    header_bytes = sum(_byte_count(name) + _byte_count(value) for name, value in headers)
    return len(payload) + header_bytes


def _byte_count(text: str) -> int:
    """Return its bytes; text that no store can encode is refused there and not here."""
    return len(text.encode(errors="surrogatepass"))


class Holding(Struct, frozen=True, gc=False):
    """How many existing nodes an account has created, and what is in them: items, and their bytes."""

    account: Jid
    nodes: int = 0
    items: int = 0
    bytes: int = 0

    def more(self, nodes: int, items: int, size: int) -> Holding:
        """Return the sum of it and this much more, or less."""
        return Holding(self.account, self.nodes + nodes, self.items + items, self.bytes + size)


class Quota(Struct, frozen=True, gc=False):
    """How many nodes an account may have created, and how many items and bytes may be in them together; 0 means no limit."""

    nodes: int = 10_000
    items: int = 4_000_000
    bytes: int = 4 << 30


USUAL: Final = Quota()
"""No honest user reaches it: it is what all publishers together may have staged, and ten thousand nodes."""


class Quotas(Struct, frozen=True):
    """The quota of every account: `of` some, by bare JID or by domain, and the default of all others."""

    usual: Quota = USUAL
    others: Mapping[str, Quota] = {}

    def of(self, account: Jid) -> Quota:
        """Return the quota of an account: the one for its JID, otherwise the one for its domain."""
        if not self.others:
            return self.usual
        return self.others.get(account) or self.others.get(account.rpartition("@")[2]) or self.usual


QUOTAS: Final = Quotas()


# The record of an answer to a ping, for the instance that waits for it.


class PingAnswer(Struct, frozen=True, gc=False):
    """When a JID last answered a ping at an instance that did not send it; to be remembered until then."""

    jid: Jid
    at: Millis
    until: Millis


# Keys of publishes: the key in a request, and the record of a key that was used.

MAX_KEY_REMEMBERED: Final = seconds(604_800)
"""The maximum time for which a key is remembered: a week."""

MAX_KEY_LENGTH: Final = 255
"""The maximum bytes of a key."""

MAX_IDS: Final = 65_536
"""The maximum bytes of all ids of a publish with a key: they are stored with it, and read for each repetition."""

MAX_KEPT: Final = 64 << 20
"""The maximum bytes that the keys of one account may count: some 300,000 keys of single items."""

ROW: Final = 200
"""The bytes that a key counts, without its ids."""

TYPE: Final = "content-type"
"""The header with the type of a payload, for payloads that do not contain it themselves."""


class PublishKey(Struct, frozen=True, gc=False):
    """The key under which an account's publish to a node is done once.

    For the time `remember` after the first publish, a repetition gets the same answer. With `strict` a repetition must have
    the same contents.
    """

    name: str
    remember: Millis
    strict: bool = False


class UsedKey(Struct, frozen=True, gc=False):
    """A key that was used, until when it is remembered, and the answer.

    `mark` identifies account, node and key, `content` the published contents; `size` is the bytes that the row counts.
    """

    mark: str
    account: Jid
    content: bytes
    until: Millis
    size: int
    ids: tuple[ItemId, ...]
    known: tuple[ItemId, ...]


class KeyTotal(Struct, frozen=True, gc=False):
    """The bytes that all keys of an account count."""

    account: Jid
    bytes: int


class KeyFacts(Struct, frozen=True, gc=False):
    """The record of the key, the bytes of all the account's keys, and the digest of the contents of this publish."""

    used: UsedKey | None
    total: KeyTotal | None
    content: bytes


def mark_of_key(account: Jid, node: NodeName, key: str) -> str:
    """Return the mark of an account's key at a node; names have no control characters, so it is unambiguous."""
    return blake2b(f"{account}\n{node}\n{key}".encode(), digest_size=16).hexdigest()


def content_of(drafts: Iterable[Draft], fingerprint: Callable[[bytes], bytes]) -> bytes:
    """Return a digest of payloads and their types, without their ids, which may be new in a repetition."""
    hashed = blake2b(digest_size=16)
    for draft in drafts:
        kind = next((value for name, value in draft.headers if name.lower() == TYPE), "")
        hashed.update(fingerprint(draft.payload))
        hashed.update(f"{kind}\n".encode())
    return hashed.digest()


def size_of_ids(ids: Sequence[ItemId]) -> int:
    """Return how many bytes the ids have."""
    return sum(len(each.encode()) for each in ids)


# A publish that feeds more copies than one commit may add: what is kept of it until all of them are in their queues.
#
# The mark is written in the commit that decides the publish, and with it each message once. The copies are numbered: the first message in
# each of the queues, then the second, and so on, so that each queue gets the messages in their order.


class MarkedPublish(Struct, frozen=True, gc=False):
    """What does not change while the copies are made: by whom, when, of how many messages, for which queues.

    Queues of `guests` are judged when the copies are made, the others were judged before.
    """

    account: Jid
    at: Millis
    messages: int
    queues: tuple[NodeName, ...]
    guests: bool = False

    @property
    def copies(self) -> int:
        """The number of places: some are empty, because the filter of their queue leaves the message out."""
        return self.messages * len(self.queues)


class Feeding(Struct, frozen=True, gc=False):
    """The row of a mark. `place` is the number of the next copy."""

    mark: str
    place: int
    what: bytes


class FedMessage(Struct, frozen=True, gc=False):
    """The row of one of its messages."""

    name: str
    draft: bytes


_MARKED: Final = msgspec.msgpack.Decoder(MarkedPublish)
_DRAFT: Final = msgspec.msgpack.Decoder(Draft)


def written(what: MarkedPublish | Draft) -> bytes:
    """Return it as it is kept."""
    return sealed(msgspec.msgpack.encode(what))


def marked(row: Feeding) -> MarkedPublish:
    """Return what a row keeps."""
    return _MARKED.decode(unsealed(row.what) or b"")


def message(row: FedMessage) -> Draft | None:
    """Return the message that a row keeps, None if it is damaged."""
    found = unsealed(row.draft)
    return None if found is None else _DRAFT.decode(found)


def name_of_message(mark: str, number: int) -> str:
    """Return the key of one of the messages of a mark."""
    return f"{mark}.{number}"


# A secret of the service, which each instance needs and none shows.


class ServiceSecret(Struct, frozen=True, gc=False):
    """A secret, by its name. It is never shown."""

    name: str
    value: bytes

    def __repr__(self) -> str:
        """Show the name alone."""
        return f"ServiceSecret({self.name!r})"


# A registration: where the items of a node are pushed to, and its state. And pages of what is pushed.

MAX_OF_ACCOUNT = 100
"""Registrations of one account."""

MAX_PULLED = 1000
"""Registrations of one account, in addition, that are pulled for as long as they are used."""


class Registration(Struct, frozen=True, gc=False):
    """Where items are pushed to.

    `words` belong to the face that pushes. `position` is the number of the last item of a plain node that was pushed, and
    `following` a URL that the target has given for the next one. The instance `runner` pushes until `until`; another may take
    over after that. Without a `runner`, items are not pushed but pulled, and the registration is in use until `until`.
    """

    name: str
    account: Jid
    node: NodeName
    queueing: bool
    words: bytes
    disabled: bool = False
    failures: int = 0
    """Failures since the last success."""
    error: str = ""
    """The last failure, for operators; it contains nothing of an item."""
    position: int = 0
    following: str = ""
    runner: str = ""
    until: Millis = Millis(0)
    revision: int = 0
    """Rises with each change."""
    damaged: bool = False
    """Whether the stored row is not what was written. It is disabled then, and nothing else of it is known."""

    @property
    def is_pulled(self) -> bool:
        """Whether it is pulled, and ends when it is not used for long."""
        return not self.runner and self.until > 0

    def __repr__(self) -> str:
        """Show only the name: the words may contain passwords."""
        return f"Registration({self.name!r})"


class Registrations(Struct, frozen=True, gc=False):
    """Registrations by name; `more` if others follow."""

    entries: tuple[Registration, ...]
    more: bool = False


class PushedNodes(Struct, frozen=True, gc=False):
    """Nodes by name whose items are pushed to an endpoint in their labels; `more` if others follow."""

    nodes: tuple[Node, ...]
    more: bool = False


# The record of a seek that is under way: enough for any process to go on with it.


class SeekMark(Struct, frozen=True, gc=False):
    """A seek of the queue to the moment `since`, asked for at `at`, when its newest item had the number `through`.

    It holds for what was there when it was asked for: so each step may be made again.
    """

    node: NodeName
    since: Millis
    at: Millis
    through: int


# The record of a settled lock: just enough to answer a repetition.

MAX_SETTLED_REMEMBERED: Final = seconds(3600)
"""The maximum time for which it is remembered: repetitions come soon, and each row takes space until then."""


class Settled(Struct, frozen=True, gc=False):
    """How a lock was settled, by its token, which is never reused. `whose` identifies node, item and account."""

    token: int
    whose: bytes
    verdict: str
    until: Millis


def whose(node: NodeName, item: ItemId, account: Jid) -> bytes:
    """Return the mark of an item and the account that settles it; names have no control characters, so it is unambiguous."""
    return blake2b(f"{node}\n{item}\n{account}".encode(), digest_size=16).digest()


# A sample: the contents and the events of a queue in one minute.

SLOT: Final = 60_000
"""Milliseconds of a sample."""

KEPT: Final = 6 * 3_600_000
"""Milliseconds for which a sample is kept."""


class Sample(Struct, frozen=True, gc=False):
    """A node in the minute that begins `at`.

    Levels at its end: items that are `queued`, `locked`, `delayed` and `dead`. Events in it: items
    that were `published`, `delivered`, `completed`, and locks that ended in a failure (`failed`).
    `waited` is the sum of the milliseconds from publish to done over the completed items, and
    `longest` the time of the slowest one.
    """

    node: NodeName
    at: Millis
    queued: int = 0
    locked: int = 0
    delayed: int = 0
    dead: int = 0
    published: int = 0
    delivered: int = 0
    completed: int = 0
    failed: int = 0
    waited: int = 0
    longest: int = 0


class SamplePage(Struct, frozen=True, gc=False):
    """Samples by node and time, as of `now`."""

    samples: tuple[Sample, ...]
    now: Millis

    def of(self, node: NodeName) -> Sequence[Sample]:
        """Return those of a node, the oldest first."""
        return [sample for sample in self.samples if sample.node == node]


def slot_of(now: Millis) -> Millis:
    """Return when the minute began."""
    return Millis(now - now % SLOT)


# The records of alerts: what is wrong, since when, and whether it was reported; and which instance watches.


class Alert(Struct, frozen=True, gc=False):
    """Something is wrong: `name` is its kind, a colon, and its subject, such as a queue.

    `over` is when it was over, 0 while it lasts. `reported` is when the targets had the present state, 0 before that.
    """

    name: str
    since: Millis
    detail: str = ""
    """The figures in words; it contains nothing of an item."""
    over: Millis = Millis(0)
    reported: Millis = Millis(0)

    @property
    def kind(self) -> str:
        """What is wrong."""
        return self.name.partition(":")[0]

    @property
    def subject(self) -> str:
        """What it is wrong with."""
        return self.name.partition(":")[2]


class AlertWatch(Struct, frozen=True, gc=False):
    """The instance `runner` watches for alerts until `until`; another may take over after that."""

    name: str
    runner: str
    until: Millis


class AlertPage(Struct, frozen=True, gc=False):
    """Alerts by name; `more` if others follow."""

    entries: tuple[Alert, ...]
    more: bool = False
