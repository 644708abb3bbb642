"""Reading a topic: `first`, `last`, and `next`, which waits. Readers have no state here: each continues from a number."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.http.problems import not_found
from pubqueue.faces.rest.http.waits import wait_of
from pubqueue.faces.rest.star.consuming import message, nothing, prefer
from pubqueue.rules.retrieve import ReadNewer, Retrieve

if TYPE_CHECKING:
    from aiohttp import web

    from pubqueue.faces.rest.exchange import Exchange
    from pubqueue.model.decision import Retrieved
    from pubqueue.model.entities import Item
    from pubqueue.model.replies import NewerItems

_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)

GAP: Final = ("Message-Gap", "possible")
"""The header of an answer that may have skipped messages: they were no longer stored."""


async def first(exchange: Exchange) -> web.Response:
    """Return the oldest stored message."""
    return await _after(exchange, 0)


async def last(exchange: Exchange) -> web.Response:
    """Return the newest message."""
    await exchange.destined(is_queue=False)
    wait = wait_of(exchange.request.headers, exchange.terms.longest_wait)
    found: Retrieved = await exchange.ask(Retrieve(exchange.by, exchange.node, newest=1))
    if not found.items:
        return await _after(exchange, 0)
    response = message(exchange, *found.items[-1], is_queue=False)
    prefer(response, wait)
    return response


async def upcoming(exchange: Exchange) -> web.Response:
    """Return the first message that is published after the request has arrived."""
    await exchange.destined(is_queue=False)
    found: NewerItems = await exchange.ask(ReadNewer(exchange.by, exchange.node))
    return await _after(exchange, found.through)


async def after(exchange: Exchange) -> web.Response:
    """Return the message after the number in the path."""
    text = exchange.names["number"]
    if not _NUMBER.fullmatch(text):
        raise not_found()
    return await _after(exchange, int(text))


async def message_behind(
    exchange: Exchange, number: int, seconds: float
) -> tuple[tuple[Item, bytes], bool] | None:
    """Return the first message after a number, waiting up to so many seconds for it, and whether others may have been skipped.

    Raises:
        ProblemError: the account may not read, or too many requests wait.

    """
    found = await _read(exchange, number)
    if found is None and seconds:
        with exchange.face.waiting.counted(exchange.by, seconds):
            found = await _wait(exchange, number, seconds)
    return found


async def _after(exchange: Exchange, number: int) -> web.Response:
    """Return the first message after a number, waiting for it if requested."""
    await exchange.destined(is_queue=False)
    wait = wait_of(exchange.request.headers, exchange.terms.longest_wait)
    found = await message_behind(exchange, number, wait.seconds)
    if found is None:
        return nothing(exchange, wait)
    (item, payload), has_gap = found
    response = message(exchange, item, payload, is_queue=False)
    if has_gap and number:
        response.headers.add(*GAP)
    prefer(response, wait)
    return response


async def _read(exchange: Exchange, number: int) -> tuple[tuple[Item, bytes], bool] | None:
    """Return the first message after a number, and whether others may have been skipped; None if there is none."""
    newer: NewerItems = await exchange.ask(
        ReadNewer(exchange.by, exchange.node, number, most=1, room=1)
    )
    return (newer.items[0], not newer.kept) if newer.items else None


async def _wait(
    exchange: Exchange, number: int, longest: float
) -> tuple[tuple[Item, bytes], bool] | None:
    """Read again whenever the node may have a new message, until there is one or the wait is over."""
    face, news = exchange.face, asyncio.Event()
    stop = face.broker.new_items.wait(exchange.node, news.set)
    try:
        async with asyncio.timeout(longest):
            while True:
                await face.waiting.until(news.wait())
                news.clear()
                if (found := await _read(exchange, number)) is not None:
                    return found
    except TimeoutError:
        return None
    finally:
        stop()
