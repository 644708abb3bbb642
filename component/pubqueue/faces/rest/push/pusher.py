"""How a message is pushed: `post-message` as one POST, `post-message-once` by a link that the target creates for it."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from pubqueue.faces.push.client import Answer, PushClient, outcome_of
from pubqueue.faces.push.signing import secret_of, signed
from pubqueue.faces.push.verdicts import Outcome, Verdict
from pubqueue.faces.rest.http.links import Link, path
from pubqueue.faces.rest.items import values
from pubqueue.faces.rest.items.delivered import body_of, headers_of
from pubqueue.faces.rest.push import hornetq, words
from pubqueue.faces.rest.terms import WORD

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.faces.push.terms import PushTerms
    from pubqueue.faces.push.work import Work
    from pubqueue.model.entities import Item, Jid
    from pubqueue.model.records import Registration

AGENT: Final = f"pubqueue/{version('pubqueue')}"
NOT_ALLOWED: Final = 405
GONE: Final = frozenset({404, 410})


class RestPusher:
    """Pushes messages by these settings. `key` is the secret of the service, from which those of registrations are derived."""

    def __init__(self, terms: Callable[[], PushTerms], accounts: Accounts, service: Jid) -> None:
        self._terms, self._accounts, self._service, self.key = terms, accounts, service, b""
        self.client = PushClient(terms())
        self.outcomes: dict[str, int] = {}
        """How many pushes had each verdict."""

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    def window(self, row: Registration) -> int:
        """Return how many messages are pushed at a time: with links for the next message, one after the other."""
        options = words.read(row.words)
        if isinstance(options, words.PullWords):
            return 0
        if isinstance(options, words.HornetqWords):
            return options.window
        return 1 if options.rel == words.ONCE else words.WINDOW

    def retries(self, row: Registration) -> int:
        """Return after how many failures in a row a registration is disabled."""
        options = words.read(row.words)
        if isinstance(options, words.HornetqWords):
            return options.retries if options.disables else 0
        return self._terms().retries

    def may(self, account: Jid) -> bool:
        """Return whether the account belongs to a user that may use REST."""
        name, _, service = account.partition("@")
        users = self._accounts.users
        return service == self._service and any(
            user.name == name and user.may_enter(WORD) for user in users
        )

    def secret(self, registration: str) -> bytes:
        """Return the secret that signs the pushes of a registration."""
        return secret_of(self.key, registration)

    async def push(self, work: Work, item: Item, payload: bytes) -> Outcome:
        """Push a message."""
        self.client.terms = self._terms()
        outcome = await self._outcome(work, item, payload)
        verdict = outcome.verdict.value
        self.outcomes[verdict] = self.outcomes.get(verdict, 0) + 1
        return outcome

    async def _outcome(self, work: Work, item: Item, payload: bytes) -> Outcome:
        options = words.read(work.row.words)
        assert not isinstance(options, words.PullWords), "its window is 0"
        headers = self._headers(work.row, options, item, payload)
        body = body_of(item, payload)[1]
        if isinstance(options, words.HornetqWords):
            return await hornetq.push(self.client, options, work.row, item, headers, body)
        call = _Call(self.client, options, work, item, headers)
        call.body = body
        return await (call.once() if options.rel == words.ONCE else call.plain())

    def _headers(
        self,
        row: Registration,
        options: words.PushWords | words.HornetqWords,
        item: Item,
        payload: bytes,
    ) -> list[tuple[str, str]]:
        prefix = options.base
        place = "queues" if row.queueing else "topics", row.node
        kind, body = body_of(item, payload)
        is_star = isinstance(options, words.PushWords)
        posting = "messages" if is_star else "create"
        found = headers_of(item, lambda node: prefix + path("nodes", node, posting))
        links = [Link("generator", prefix + path(*place))]
        if is_star:
            links.insert(0, Link("self", prefix + path(*place, "messages", item.id)))
        found += [("Link", str(link)) for link in links]
        found += [("Content-Type", kind), ("User-Agent", AGENT)]
        name = values.encoded(item.id)
        return found + list(signed(self.secret(row.name), name, int(time.time()), body).items())


class _Call:
    """One message on its way to one target."""

    def __init__(  # a message, and its target
        self,
        client: PushClient,
        options: words.PushWords,
        work: Work,
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
        await self._work.note(following=f"{self._item.id}\n{link}")
        answer = await self._client.call("POST", link, self._headers, self.body)
        if not isinstance(answer, Answer):
            return answer
        following = answer.links.get("create-next", "")
        following = f"\n{following}" if self._client.is_allowed(following) else ""
        if answer.status == NOT_ALLOWED and is_repetition:
            return Outcome(Verdict.DONE, following=following)
        if answer.status in {*GONE, NOT_ALLOWED}:  # the next attempt has a new link
            await self._work.note(following="")
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
