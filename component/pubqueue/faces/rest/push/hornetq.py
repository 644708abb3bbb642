"""How a message is pushed for a registration of HornetQ: to a destination, by a template, or to a URL with its own method and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pubqueue.faces.push.client import Answer, for_origin, outcome_of
from pubqueue.faces.push.verdicts import Outcome, Verdict
from pubqueue.faces.rest.push import words

if TYPE_CHECKING:
    from pubqueue.faces.push.client import PushClient
    from pubqueue.model.entities import Item
    from pubqueue.model.records import Registration

    Headers = list[tuple[str, str]]

ID: Final = "{id}"
_CREATE: Final = "msg-create-with-id"
FOUND: Final = range(200, 300)


async def push(  # noqa: PLR0917  # a message, and where it goes
    client: PushClient,
    options: words.HornetqWords,
    row: Registration,
    item: Item,
    headers: Headers,
    body: bytes,
) -> Outcome:
    """Push a message, and return the outcome by the registration's own counts."""
    headers = _own(options, headers)
    url: str | Outcome = options.href
    if options.rel == words.DESTINATION:
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


def judged(outcome: Outcome, options: words.HornetqWords, failures: int) -> Outcome:
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


def _own(options: words.HornetqWords, headers: Headers) -> Headers:
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
