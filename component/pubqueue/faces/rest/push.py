"""The registrations of REST that this instance has claimed, and how a message is pushed for one of either profile."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
import structlog

from pubqueue.faces.flow import stepped
from pubqueue.faces.push.client import Answer, PushClient, for_origin, outcome_of
from pubqueue.faces.push.targets import Outcome, Verdict, secret_of, signed
from pubqueue.faces.push.worker import Job
from pubqueue.faces.rest import items
from pubqueue.faces.rest.items import body_in_steps, body_of, headers_of
from pubqueue.faces.rest.links import Link, path
from pubqueue.faces.rest.settings import WORD
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Connection
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import Claim, ListRegistrations, NotePush, is_worked_on
from pubqueue_xeps.wire.payloads.wrapper import STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.push.targets import PushTerms
    from pubqueue.model.entities import Item, Jid

    Headers = list[tuple[str, str]]


# Registrations: rows, each of which one instance at a time claims, again and again.
#
# The locks are those of an address of this start of the instance, so they are released soon after its death, and none that was
# begun since then.

log = structlog.get_logger(__name__)

RENEW: Final = 1.2
"""Seconds between two claims of a `LEASE`, and between two looks for registrations."""

PAGE: Final = 500
MAX_PAUSE: Final = 60.0
"""Maximum seconds without a push after a failure, if the target does not say how long."""

AGENT: Final = f"pubqueue/{version('pubqueue')}"
NOT_ALLOWED: Final = 405
GONE: Final = frozenset({404, 410})


class RestPusher:
    """Pushes by these settings. `key` is the secret of the service, from which those of registrations are derived.

    `runner` is the process, with whose instance the addresses of locks are made.
    """

    def __init__(
        self, broker: Broker, accounts: Accounts, terms: Callable[[], PushTerms], runner: str
    ) -> None:
        self.broker, self._accounts, self._terms, self.runner = broker, accounts, terms, runner
        self.principals = accounts.principals
        self.service = self.principals.service(broker.service)
        self.key = b""
        self.client = PushClient(terms())
        self.outcomes: dict[str, int] = {}
        """How many pushes had each verdict."""
        self._rendering = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    def every(self) -> float:
        """Return the seconds between two looks for registrations."""
        return RENEW

    async def page(self, after: str) -> tuple[Sequence[Registration], bool] | None:
        """Return the registrations after a name and whether there are more, None if they cannot be read."""
        page = await self.broker.handle(ListRegistrations(self.service, None, after, PAGE))
        return (page.entries, page.more) if isinstance(page, Registrations) else None

    def job(self, row: Registration) -> Claimed | None:
        """Return the work on a registration, None if another instance does it or there is none."""
        others = is_worked_on(row, self.runner, self.broker.now())
        if row.disabled or others or not self.may(row.account) or not self.window(row):
            return None
        return Claimed(self, row)

    def window(self, row: Registration) -> int:
        """Return how many messages are pushed at a time: with links for the next message, one after the other."""
        options = read(row.words)
        if isinstance(options, PullWords):
            return 0
        if isinstance(options, HornetqWords):
            return options.window
        return 1 if options.rel == ONCE else WINDOW

    def retries(self, row: Registration) -> int:
        """Return after how many failures in a row a registration is disabled."""
        options = read(row.words)
        if isinstance(options, HornetqWords):
            return options.retries if options.disables else 0
        return self._terms().retries

    def may(self, account: Jid) -> bool:
        """Return whether the account belongs to a user that may use REST."""
        name, _, service = account.partition("@")
        users = self._accounts.users
        return service == self.broker.service and any(
            user.name == name and user.may_enter(WORD) for user in users
        )

    def secret(self, registration: str) -> bytes:
        """Return the secret that signs the pushes of a registration."""
        return secret_of(self.key, registration)

    async def _rendered(self, item: Item, payload: bytes) -> tuple[str, bytes]:
        """Return content type and body; a large message is decoded in steps, one after the other."""
        if len(payload) <= STEP:
            return body_of(item, payload)
        async with self._rendering:
            return await stepped(body_in_steps(item, payload))

    async def push(self, work: Claimed, item: Item, payload: bytes) -> Outcome:
        """Push a message."""
        self.client.terms = self._terms()
        options = read(work.row.words)
        assert not isinstance(options, PullWords), "its window is 0"
        kind, body = await self._rendered(item, payload)
        signature = partial(
            signed, self.secret(work.row.name), items.encoded(item.id), int(time.time()), body
        )
        is_large = len(body) > STEP
        fields = await asyncio.to_thread(signature) if is_large else signature()
        headers = [*self._headers(work.row, options, item, kind), *fields.items()]
        if isinstance(options, HornetqWords):
            return await push(self.client, options, work.row, item, headers, body)
        call = _Call(self.client, options, work, item, headers)
        call.body = body
        return await (call.once() if options.rel == ONCE else call.plain())

    def _headers(
        self,
        row: Registration,
        options: PushWords | HornetqWords,
        item: Item,
        kind: str,
    ) -> list[tuple[str, str]]:
        prefix = options.base
        place = "queues" if row.queueing else "topics", row.node
        is_star = isinstance(options, PushWords)
        posting = "messages" if is_star else "create"
        found = headers_of(item, lambda node: prefix + path("nodes", node, posting))
        links = [Link("generator", prefix + path(*place))]
        if is_star:
            links.insert(0, Link("self", prefix + path(*place, "messages", item.id)))
        if item.wait is not None:
            links.append(Link("waited", prefix + path(*place, "messages", item.id, "waited")))
        found += [("Link", str(link)) for link in links]
        return [*found, ("Content-Type", kind), ("User-Agent", AGENT)]


class Claimed(Job[Registration]):
    """A registration that this instance works on."""

    why = "push: "

    def __init__(self, pusher: RestPusher, row: Registration) -> None:
        broker = pusher.broker
        name = f"{broker.life}-push-{row.name}"  # of no earlier start
        by = pusher.principals.of(
            Connection(row.account, WORD, broker.instance.number, name).address
        )
        super().__init__(row.node, by, RENEW, registration=row.name)
        self._pusher, self.row, self.queueing = pusher, row, row.queueing
        self._is_healthy, self._is_closing, self._is_over = True, False, False

    @property
    def position(self) -> int:
        """The number of the last message of a topic that was pushed."""
        return self.row.position

    async def hold(self) -> bytes | None:
        """Claim the registration, and return its words; None if it is not this instance's, or has ended."""
        if self._is_over:
            return None
        pusher, name = self._pusher, self.row.name
        claim = Claim(pusher.service, name, pusher.runner)
        reply = await pusher.broker.handle(claim)
        row = next(iter(reply.entries), None) if isinstance(reply, Registrations) else None
        if row is None or row.runner != pusher.runner or row.disabled:
            return None
        self.row = row
        return row.words if pusher.may(row.account) else None

    def holds(self) -> bool:
        """Return whether the account may still have items pushed."""
        return self._pusher.may(self.row.account)

    def window(self) -> int:
        """Return how many messages may be under way: after a failure one, until a push succeeds."""
        if self._is_closing:
            return 0
        return self._pusher.window(self.row) if self._is_healthy else 1

    async def push(self, item: Item, payload: bytes) -> Outcome:
        """Push a message."""
        outcome = await self._pusher.push(self, item, payload)
        outcomes, verdict = self._pusher.outcomes, outcome.verdict.value
        outcomes[verdict] = outcomes.get(verdict, 0) + 1
        return outcome

    def brace(self, outcome: Outcome) -> float:
        """Return for how many seconds nothing more is pushed; nothing at all if pushing ends."""
        verdict = outcome.verdict
        if verdict in {Verdict.DONE, Verdict.BAD}:
            return 0.0
        failures = self.row.failures + (verdict is not Verdict.LATER)
        if verdict is Verdict.GONE or self._disables(verdict, failures):
            self._is_closing = True
        if verdict in {Verdict.FAILED, Verdict.AGAIN}:
            self._is_healthy = False
        return outcome.wait or min(2.0 ** min(failures, 10) / 2, MAX_PAUSE)

    def _disables(self, verdict: Verdict, failures: int) -> bool:
        most = self._pusher.retries(self.row)
        return verdict is Verdict.DISABLED or bool(most and failures >= most)

    async def judged(self, outcome: Outcome, position: int) -> bool:
        """Store the result of a push, and its effect on the registration."""
        row, verdict = self.row, outcome.verdict
        if verdict in {Verdict.DONE, Verdict.BAD}:
            self._is_healthy = True
            if row.failures or row.following != outcome.following or position:
                await self._note(failures=0, following=outcome.following, position=position)
        else:
            failures = row.failures + (verdict is not Verdict.LATER)
            disabled, ended = self._disables(verdict, failures), verdict is Verdict.GONE
            await self._note(
                failures=failures,
                error=outcome.reason,
                disabled=disabled,
                ended=ended,
                position=position,
                following=row.following,
            )
            if disabled or ended:
                event = "push.disabled" if disabled else "push.ended"
                log.warning(event, registration=row.name, node=row.node, reason=outcome.reason)
                self._is_over = True
        self._is_closing = self._is_over
        return not self._is_over

    async def note_following(self, following: str) -> None:
        """Store the URL for the next message."""
        await self._note(failures=self.row.failures, error=self.row.error, following=following)

    async def _note(self, **values: object) -> None:
        pusher = self._pusher
        note = NotePush(pusher.service, self.row.name, pusher.runner, **values)  # type: ignore[arg-type]  # fields by name
        reply = await pusher.broker.handle(note)
        if isinstance(reply, Registrations):
            self.row = reply.entries[0]
        elif isinstance(reply, Refused) and reply.refusal is not Refusal.STORE_FAILED:
            self._is_over = True


# How a message is pushed: `post-message` as one POST, `post-message-once` by a link that the target creates for it.


class _Call:
    """One message on its way to one target."""

    def __init__(  # a message, and its target
        self,
        client: PushClient,
        options: PushWords,
        work: Claimed,
        item: Item,
        headers: list[tuple[str, str]],
    ) -> None:
        self._client, self._options, self._work, self._item = client, options, work, item
        self._headers, self.body = headers, b""

    async def plain(self) -> Outcome:
        answer = await self._client.call("POST", self._options.href, self._headers, self.body)
        return outcome_of(answer) if isinstance(answer, Answer) else answer

    async def once(self) -> Outcome:
        """Post to the link of the last answer, or to a new one. The link is recorded before, so that a repetition uses it too."""
        owner, _, link = self._work.row.following.partition("\n")
        is_repetition = bool(link) and owner == self._item.id
        if owner and not is_repetition:
            link = ""  # it may have been used for another message
        if not link:
            found = await self._new_link()
            if isinstance(found, Outcome):
                return found
            link = found
        await self._work.note_following(f"{self._item.id}\n{link}")
        answer = await self._client.call("POST", link, self._headers, self.body)
        if not isinstance(answer, Answer):
            return answer
        following = answer.links.get("create-next", "")
        following = f"\n{following}" if self._client.terms.target(following) else ""
        if answer.status == NOT_ALLOWED and is_repetition:
            return Outcome(Verdict.DONE, following=following)
        if answer.status in {*GONE, NOT_ALLOWED}:  # the next attempt has a new link
            await self._work.note_following("")
            return Outcome(Verdict.FAILED, f"status {answer.status} at the link of the target")
        outcome = outcome_of(answer)
        if outcome.verdict is Verdict.DONE:
            return Outcome(Verdict.DONE, following=following)
        return outcome

    async def _new_link(self) -> str | Outcome:
        """Ask the target for a link, with an empty POST."""
        agent = [row for row in self._headers if row[0] == "User-Agent"]
        answer = await self._client.call("POST", self._options.href, agent, b"")
        if not isinstance(answer, Answer):
            return answer
        outcome = outcome_of(answer)
        if outcome.verdict is not Verdict.DONE:
            return outcome
        link = answer.links.get("create-next", "")
        if not link:
            return Outcome(Verdict.FAILED, "the target has given no link create-next")
        return link


# How a message is pushed for a registration of HornetQ: to a destination, by a template, or to a URL with its own method and headers.

ID: Final = "{id}"
_CREATE: Final = "msg-create-with-id"
FOUND: Final = range(200, 300)


async def push(  # noqa: PLR0917  # a message, and where it goes
    client: PushClient,
    options: HornetqWords,
    row: Registration,
    item: Item,
    headers: Headers,
    body: bytes,
) -> Outcome:
    """Push a message, and return the outcome by the registration's own counts."""
    headers = _own(options, headers)
    url: str | Outcome = options.href
    if options.rel == DESTINATION:
        url = await _template_of(client, options.href, headers)
    if isinstance(url, Outcome):
        return judged(url, options, row.failures)
    headers = for_origin(headers, options.href, url)
    answer = await client.call(options.method, filled(url, item.id), headers, body)
    outcome = outcome_of(answer) if isinstance(answer, Answer) else answer
    return judged(outcome, options, row.failures)


def filled(url: str, name: str) -> str:
    """Return the URL with the id of a message in its place."""
    return url.replace(ID, quote(name, safe=""))


def judged(outcome: Outcome, options: HornetqWords, failures: int) -> Outcome:
    """Return the meaning of an outcome after so many failures: before the last retry the message is released, and delivered again."""
    verdict = outcome.verdict
    if verdict is Verdict.DISABLED and options.disables:
        return outcome
    if verdict not in {Verdict.DISABLED, Verdict.GONE, Verdict.FAILED}:
        return outcome
    if failures + 1 < options.retries:
        return Outcome(Verdict.AGAIN, outcome.reason, options.wait)
    return Outcome(
        Verdict.DISABLED if options.disables else Verdict.FAILED, outcome.reason, options.wait
    )


def _own(options: HornetqWords, headers: Headers) -> Headers:
    """Return the headers with those of the registration."""
    own = list(options.headers)
    if options.type:
        own.append(("Content-Type", options.type))
    if options.authorization:
        own.append(("Authorization", options.authorization))
    names = {name.lower() for name, _ in own}
    return [row for row in headers if row[0].lower() not in names] + own


async def _template_of(client: PushClient, href: str, headers: Headers) -> str | Outcome:
    """Return the URL at which a destination accepts messages under an id."""
    kept = [row for row in headers if row[0] in {"Authorization", "User-Agent"}]
    answer = await client.call("HEAD", href, kept, b"")
    if not isinstance(answer, Answer):
        return answer
    template = answer.headers.get(_CREATE, "")
    if answer.status not in FOUND:
        return outcome_of(answer)
    if ID not in template:
        return Outcome(Verdict.FAILED, f"the destination has no link {_CREATE}")
    return template


# The stored data of a registration of REST, of either profile.

WINDOW = 4
"""Messages of one registration that are pushed at a time."""

ONCE = "post-message-once"
PLAIN = "post-message"

DESTINATION = "destination"
TEMPLATE = "template"
"""Relations of HornetQ: a destination of another service, and a URL with `{id}` in it."""


class PushWords(msgspec.Struct, frozen=True, tag_field="profile", tag="rest-star"):
    """The relation and the URL of the target, and the prefix of links to this service."""

    rel: str
    href: str
    base: str


class HornetqWords(msgspec.Struct, frozen=True, tag_field="profile", tag="hornetq"):
    """A push registration of HornetQ. `retries` and `wait`, in seconds, are its own; `window` is its count of sessions.

    The values of `headers` and the credentials are never shown.
    """

    rel: str
    href: str
    base: str
    method: str = "POST"
    type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    authorization: str = ""
    retries: int = 0
    wait: float = 0.0
    disables: bool = False
    window: int = 1

    def __repr__(self) -> str:
        """Show only the target: headers and credentials are secrets."""
        return f"HornetqWords({self.href!r})"


class PullWords(msgspec.Struct, frozen=True, tag_field="profile", tag="hornetq-pull"):
    """A pull consumer of a queue, or a pull subscription of a topic: it is never pushed."""

    rel: str = "pull"
    href: str = ""


Words = PushWords | HornetqWords | PullWords
_READER: msgspec.json.Decoder[Words] = msgspec.json.Decoder(Words)


def written(words: Words) -> bytes:
    """Return the words in stored form."""
    return msgspec.json.encode(words)


def read(stored: bytes) -> Words:
    """Return stored words."""
    return _READER.decode(stored)
