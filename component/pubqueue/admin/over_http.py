"""Operations over HTTP: each is a request to the API of the service, which needs no XMPP server."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from pubqueue.admin.http_client import ForeignAnswerError, HttpClient
from pubqueue.admin.session import About, Link, OperationRefused, Page
from pubqueue.operations.model import Cell, moment
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.publications import MAX_REQUEST_BYTES
from pubqueue_xeps.errors import (
    LoginRefused,
    NotAllPublished,
    NotConfirmed,
    PubqueueError,
    ServerUnreachable,
    ServiceUnavailable,
)
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.names import checked
from pubqueue_xeps.wire.publication import Published, new_id, wrapped, written
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import publishing
from pubqueue_xeps.wire.times import until
from pubqueue_xeps.wire.xml_text import kept, legal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pubqueue.admin.http_client import Address, Answer, Identity
    from pubqueue.operations.model import Operation, Value
    from pubqueue_xeps.wire.publication import NewItem

PROBLEM: Final = "application/problem+json"
OURS: Final = "urn:x-pubqueue:problem:"

UNAUTHORIZED, TOO_MANY = 401, 429
OK: Final = 200


class HttpLink(Link):
    """A session of a user of the service, without an XMPP server."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.about = About(client.identity.who, client.address.shown)

    async def perform(self, operation: Operation, words: Mapping[str, tuple[str, ...]]) -> Page:
        """Send the request of the operation."""
        path, body = f"api/operations/{quote(operation.name)}", b""
        method = "POST" if operation.changes else "GET"
        if operation.changes:
            body = msgspec.json.encode({name: _sent(values) for name, values in words.items()})
        elif words:
            path += f"?{urlencode(words, doseq=True)}"
        value, refusal = result_of(self.client, await self.client.request(method, path, body))
        if refusal is not None:
            if not refusal.condition:
                raise self._unknown(operation)
            raise self._refused(refusal, operation, words)
        return self._read(operation, value)

    @property
    def tls(self) -> tuple[str, str, int] | None:
        """The TLS of the connection."""
        return self.client.tls

    async def log_in(self) -> None:
        """Have the service prove the user, which it does in each request.

        Raises:
            LoginRefused: it refuses.

        """
        result_of(self.client, await self.client.request("GET", "api/operations"))

    async def readiness(self) -> list[str]:
        """Return why the service does not serve every protocol now; nothing if all is well."""
        answer = await self.client.request("GET", "readyz", is_judged=False)
        try:
            return list(map(str, msgspec.json.decode(answer.body)["why_not"]))
        except (msgspec.DecodeError, LookupError, TypeError):
            raise _foreign(self.client, answer) from None

    def _read(self, operation: Operation, value: dict[str, Any]) -> Page:
        if value.get("operation") != operation.name or not isinstance(value.get("rows"), list):
            raise self._unknown(operation)
        now = value.get("now")
        return Page(
            note=str(value.get("note", "")),
            rows=tuple(_row(operation, row) for row in value["rows"]),
            through=str(value.get("through", "")),
            more=bool(value.get("more")),
            now=moment(now) if isinstance(now, str) else None,
            oldest=value.get("oldest"),
            newest=value.get("newest"),
            warns=bool(value.get("warns")),
        )


def _sent(values: tuple[str, ...]) -> str | list[str]:
    """Return the values of a parameter as JSON: one as it is, because a list may be a payload."""
    return values[0] if len(values) == 1 else list(values)


def _row(operation: Operation, row: Mapping[str, Any]) -> dict[str, Value]:
    """Return the cells of the known columns; a later version may have others."""
    return {column.name: _cell(column.cell, row.get(column.name)) for column in operation.columns}


def _cell(cell: Cell, value: Any) -> Value:  # noqa: ANN401  # of JSON
    match cell:
        case Cell.MOMENT | Cell.SINCE if isinstance(value, str):
            return moment(value)
        case Cell.NAMES:
            return tuple(map(str, value or ()))
        case Cell.RATE if isinstance(value, int):
            return float(value)
        case _:
            return value  # type: ignore[no-any-return]  # text, a number or a truth value


# Answers: results, refusals, and whatever else may answer at an address.


def result_of(client: HttpClient, answer: Answer) -> tuple[dict[str, Any], Refusal | None]:
    """Return the object of an answer, and the refusal in it. One without a condition is of an address that the service does not know.

    Raises:
        LoginRefused: the service refuses the user.
        ServiceUnavailable: it does not answer now, or something else does.

    """
    if answer.kind not in {"application/json", PROBLEM}:
        raise _foreign(client, answer)
    try:
        value = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        raise _foreign(client, answer) from None
    if not isinstance(value, dict):
        raise _foreign(client, answer)
    if answer.status == OK:
        return value, None
    if answer.kind != PROBLEM or not str(value.get("type", "")).startswith(OURS):
        raise _foreign(client, answer)
    return value, _refusal(client, answer.status, value)


def _refusal(client: HttpClient, status: int, problem: dict[str, Any]) -> Refusal:
    shown, who = client.address.shown, client.identity.who
    detail = str(problem.get("detail", "")).rstrip(".")
    if status in {UNAUTHORIZED, TOO_MANY} and "error" not in problem:
        why = f": {detail}" if detail else ""
        raise LoginRefused(f"{shown} refuses the login of {who}{why}.")
    if isinstance(error := problem.get("error"), dict):
        return _read_error(error)
    match status:
        case 404 | 405:
            return Refusal("cancel", "")
        case 403:
            return Refusal("auth", "forbidden", text=detail)
        case 408 | 500 | 503:
            raise ServiceUnavailable(f"{shown} is unavailable: {detail or 'it does not say why'}.")
        case _:
            return Refusal("modify", "not-acceptable", text=detail)


def _read_error(error: Mapping[str, Any]) -> Refusal:
    """Return a refusal in the words of XMPP."""
    kind, condition, detail, text = (
        str(error.get(part, "")) for part in ("type", "condition", "detail", "text")
    )
    return Refusal(kind, condition, detail, text)


def _foreign(client: HttpClient, answer: Answer) -> ForeignAnswerError:
    where = f" to {answer.where}" if answer.where else ""
    return ForeignAnswerError(
        f"What answers at {client.address.shown} is not pubqueue (status {answer.status}{where})."
    )


@asynccontextmanager
async def linked(
    address: Address,
    identity: Identity,
    *,
    timeout: float = 30.0,  # noqa: ASYNC109  # a promise
) -> AsyncIterator[HttpLink]:
    """Yield a link to the service at this address, and close it at the end.

    Raises:
        ConfigurationError: the file of authorities cannot be used.

    """
    client = HttpClient(address, identity, timeout)
    try:
        yield HttpLink(client)
    finally:
        client.close()


# Publishing: as over XMPP, a request is repeated under the same ids until the service has confirmed its items.

REQUEST_BYTES: Final = 1 << 20
"""Bytes of items in one request, as soon as it has one."""

TIMEOUT: Final = 120.0
"""Seconds for which a request is repeated."""


class HttpPublisher:
    """Publishes to the nodes of a service."""

    def __init__(self, client: HttpClient, timeout: float = TIMEOUT) -> None:
        self._client, self._timeout = client, timeout
        self._timings = Timings()

    async def publish_many(self, node: str, items: Sequence[NewItem]) -> list[Published]:
        """Return when the service has all items on disk.

        Raises:
            NotAllPublished: some are not published, or it is unknown; `results` has the result or error of each.

        """
        results: list[Published | Exception] = []
        some: list[dict[str, Any]] = []
        size = 0
        for item in items:
            try:
                new = _written(node, item)
            except (TypeError, ValueError) as problem:
                results += await self._published(node, some)
                results.append(problem)
                some, size = [], 0
                continue
            length = len(msgspec.json.encode(new))
            if some and size + length > REQUEST_BYTES:
                results += await self._published(node, some)
                some, size = [], 0
            some.append(new)
            size += length
        results += await self._published(node, some)
        done = [one for one in results if isinstance(one, Published)]
        if len(done) == len(results):
            return done
        why = next(one for one in results if isinstance(one, Exception))
        raise NotAllPublished(
            f"{len(results) - len(done)} of {len(results)} items were not published: {why}", results
        )

    async def _published(
        self, node: str, items: list[dict[str, Any]]
    ) -> list[Published | Exception]:
        """Send items until each is confirmed or refused for good, or the timeout is over."""
        results: dict[int, Published | Exception] = {}
        left = dict(enumerate(items))
        end, asked, is_unsure = time.monotonic() + self._timeout, 0, False
        while left:
            why: PubqueueError | None = None
            try:
                found = await self._tried(node, list(left.values()), is_first=not is_unsure)
            except ServerUnreachable as problem:
                why = problem
            except ForeignAnswerError:
                raise
            except ServiceUnavailable as problem:
                why, is_unsure = problem, True
            else:
                for at, one in zip(list(left), found, strict=True):
                    results[at] = one
                    if not isinstance(one, ServiceUnavailable):
                        del left[at]
                    else:
                        why = one
            pause = self._timings.pause(asked)
            if why is not None and time.monotonic() + pause > end:
                results |= {at: _given_up(why, one, is_unsure) for at, one in left.items()}
                break
            if left:
                asked += 1
                await asyncio.sleep(pause)
        return [results[at] for at in range(len(items))]

    async def _tried(
        self, node: str, items: list[dict[str, Any]], *, is_first: bool
    ) -> list[Published | PubqueueError]:
        """Send items once; return the result of each."""
        path = f"api/publish?{urlencode({'node': node})}"
        body = msgspec.json.encode({"items": items})
        value, refusal = result_of(self._client, await self._client.request("POST", path, body))
        shown = self._client.address.shown
        if refusal is None:
            return [self._result(node, one, first=is_first) for one in value["results"]]
        if not refusal.condition:
            raise OperationRefused(
                f"{shown} runs a version that does not publish over HTTP.", "publish"
            )
        return [refusals.failure(refusal, shown, node) for _ in items]

    def _result(
        self, node: str, result: dict[str, Any], *, first: bool
    ) -> Published | PubqueueError:
        name = str(result["id"])
        if (error := result.get("error")) is not None:
            failure = refusals.failure(_read_error(error), self._client.address.shown, node)
            failure.id = name
            return failure
        known, dead = bool(result.get("duplicate")), result.get("dead")
        # an item that a repeated request finds may be its own first publish
        duplicate = None if known and not first and dead is None else known
        return Published(node, name, duplicate, dead)


def _written(node: str, new: NewItem) -> dict[str, Any]:
    """Return an item as a request has it; raise TypeError or ValueError for one that cannot be sent."""
    name = publishing.identified(new.id) or new_id()
    checked(node, "The node's name")
    publishing.beside(new.delay, new.priority, new.ttl, new.headers, new.group)  # checks them
    new = wrapped(new)
    try:
        payload = legal(written(new.payload), f"The payload of {name!r}")
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"The payload of {name!r} {problem}.") from None
    if len(payload.encode()) > MAX_REQUEST_BYTES:
        raise ValueError(
            f"The item {name!r} has {len(payload.encode())} bytes as it is sent; workers over XMPP take up to {MAX_REQUEST_BYTES}."
            " Put what is large elsewhere, and publish where it is."
        )
    found: dict[str, Any] = {"id": name, "payload": payload, "priority": new.priority or 0}
    if new.delay is not None:
        found["delay"] = until("delay", new.delay)
    if new.ttl is not None:
        found["ttl"] = until("ttl", new.ttl)
    if new.headers:
        found["headers"] = {
            each: kept(text, f"header {each!r}") for each, text in new.headers.items()
        }
    if new.group is not None:
        found["group"] = new.group
    return found


def _given_up(why: PubqueueError, item: dict[str, Any], is_unsure: bool) -> PubqueueError:  # noqa: FBT001  # a fact
    """Return the error of an item that was neither confirmed nor refused for good."""
    reason = f"{why}".rstrip(".")
    name = str(item["id"])
    if is_unsure:
        return NotConfirmed(
            f"The publish of {name!r} was not confirmed: {reason}; publish it again under its id.",
            id=name,
        )
    return ServiceUnavailable(f"The publish of {name!r} was given up: {reason}.", id=name)
