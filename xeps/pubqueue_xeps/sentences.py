"""Sentences in place of log lines, for a program that has not set up logging.

Warnings and errors go to standard error as they would without this, but as sentences with the user's own frames of the traceback.
While a worker reports, some other events do too. Sentences contain neither payload nor secrets. A program that has set up `logging`
gets none; one that has set up structlog, or has PUBQUEUE_QUIET in its environment, gets its warnings and errors as log lines.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = logging.getLogger()
LOGGER: Final = logging.getLogger("pubqueue_xeps")
QUIET: Final = "PUBQUEUE_QUIET"
"""The variable of the environment that asks for log lines."""

# fmt: off
SENTENCES: Final[dict[str, str]] = {
    "worker.subscribed":        "connected as {jid} to {node} at {service}, {requests} at a time",
    "worker.waiting":           "trying again in {seconds} s: {why}",
    "worker.disconnected":      "the connection is lost ({why}), reconnecting",
    "worker.stopping":          "stopping, {in_hand} in hand",
    "worker.drain_timeout":     "items in hand are released after {seconds} s",
    "worker.failed":            "ended: {why}",
    "worker.left":              "leaves {service}, which is being drained: {why}",
    "worker.closed":            "closed",
    "schedule.created":         "created the schedule {id}: {cron} ({zone}), to {node}",
    "schedule.changed":         "changed the schedule {id}: {cron} ({zone}), to {node}",
    "schedule.removed":         "removed the schedule {id} at {service}: its place is another service",
    "publisher.disconnected":   "the connection of the publisher {jid} is lost ({why}), reconnecting",
    "publisher.waiting":        "the publisher tries again in {seconds} s: {why}",
    "publisher.failed":         "the publisher ended: {why}",
    "publisher.dead_already":   "published again, but dead: {id} of {node}; no worker gets it until an owner redrives it",
    "publisher.refused":        "not published: {id} of {node} ({why})",
    "outbox.relaying":          "relaying {table}",
    "outbox.stopped":           "stopped relaying {table}, {published} published",
    "outbox.failed":            "the relay of {table} ended: {why}",
    "outbox.waiting":           "the relay of {table} tries again in a moment: {why}",
    "outbox.refused":           "not published: {id} of {node} stays in the outbox ({why})",
    "outbox.deferred":          "{count} items of {table} were not confirmed in time, and are tried again ({why})",
    "outbox.database_failed":   "the database of {table} failed ({why}) and is asked again",
    "people.ready":             "asking people as {jid}; {open} questions are open",
    "people.failed":            "a step of a question has failed ({error}): {why}",
    "people.stranger":          "a message from {sender}, who is not asked, is ignored; so are all others from there",
    "people.escalated":         "nobody has answered {id} of {node}: it goes to {to}",
    "people.nobody_waits":      "the answer has come too late: {id} of {node} waits no longer",
    "people.signal_waits":      "an answer or a mark for {id} of {node} is sent again: {why}",
    "people.not_told":          "{to} was not told in time",
    "people.undeliverable":     "a question to {to} could not be delivered",
    "people.window_refused":    "the number of items to take could not be changed: {why}",
    "people.archive_silent":    "the archive of messages with {to} does not answer, and is asked again",
    "people.archive_long":      "the archive has more messages with {to} than the {read} that were read",
    "people.room_closed":       "the room {room} does not let the bot in",
    "people.room_left":         "the bot is no longer in the room {room}",
    "message.failed":           "a pending message to {peer} has failed: {why}",
    "message.refused":          "a message from {sender} is refused: {condition}",
    "message.not_kept":         "a message from {sender} is not kept: {why}",
    "message.expired":          "{count} messages of {sender} and others have expired, because their delivery was not requested",
    "message.handler_failed":   "a handler failed at a message from {sender}",
    "pending.failed":           "the file of pending messages: {why}",
    "item.failed":              "failed: {id} of {node} ({error})",
    "batch.failed":             "failed: {items} items in one call of the handler {handler} ({error})",
    "item.rejected":            "rejected: {id} of {node} is dead ({why})",
    "item.no_handler":          "no handler for {kind}: {id} of {node} is released",
    "item.cancelled":           "released: {id} of {node}, because something that its handler awaited was cancelled",
    "item.lost":                "lost: {id} of {node} ({why})",
    "item.gone":                "gone: {id} of {node} ({why})",
    "item.released":            "released at the end, unfinished: {id} of {node}",
    "item.not_touched":         "the lock of {id} of {node} is not extended any more: {why}",
    "item.unlock_unconfirmed":  "not released yet: {id} of {node}; the service has not answered, and is asked again",
    "item.not_unlocked":        "not released: {id} of {node} stays locked until its lock times out ({why})",
    "handler.orphaned":         "the handler {handler} has exceeded its time limit; its thread runs on, and its result is ignored",
    "middleware.report_failed": "the report of a middleware failed ({error})",
    "loop.stands_still":        "the event loop has been blocked for {seconds} s in {where}, and no lock is extended"
                                " meanwhile; run blocking work in asyncio.to_thread",
    "loop.stood_still":         "the event loop was blocked for {seconds} s in {where}",
    "server.slow":              "the XMPP server took {seconds} s to read {octets} bytes of {jid}: it limits what this account sends."
                                " In Prosody raise limits.c2s.rate or add the account to unlimited_jids; in ejabberd give it"
                                " another shaper in shaper_rules.c2s_shaper",
    "lock.unreadable":          "{sender} sent a lock that cannot be read: {error}",
}
# fmt: on
"""The line for each event: for all warnings and errors, and for some others."""


class SentenceHandler(logging.Handler):
    """Writes events as sentences."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless the program has set up logging."""
        if _is_logging_set_up():
            return
        event: Mapping[str, Any] = getattr(record, "pubqueue", {})
        sentence = SENTENCES.get(event.get("event", ""))
        if not wanted():
            _write(record.getMessage())
        elif sentence is not None:
            show(sentence.format_map(Facts(event)))
        elif record.levelno >= logging.WARNING:
            show(record.getMessage())
        if record.exc_info:
            _write(logging.Formatter().formatException(record.exc_info))


class Facts(dict[str, Any]):
    """The facts of an event; a missing one is shown as a question mark."""

    def __missing__(self, key: str) -> str:
        return "?"


def show(sentence: str) -> None:
    """Write a line, with U+FFFD in place of characters that a terminal could take for a command."""
    shown = "".join(each if each.isprintable() else "\ufffd" for each in sentence)
    _write(f"pubqueue: {shown}")


def _write(line: str) -> None:
    """Write a line. Who reads it may be gone, or its disk full: no work ends for that, as with any handler of logging."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def wanted() -> bool:
    """Return whether the program has neither set up logging or structlog nor asked for quiet."""
    configured = _is_logging_set_up() or structlog.is_configured()
    return not configured and not os.environ.get(QUIET)


def _is_logging_set_up() -> bool:
    others = [one for one in LOGGER.handlers if one is not STANDARD_ERROR.handler]
    return bool(others or ROOT.handlers)


class StandardError:
    """Where sentences go: warnings and errors at all times, other events while any worker of this process reports them."""

    def __init__(self) -> None:
        self.handler = SentenceHandler(logging.WARNING)
        LOGGER.addHandler(self.handler)
        self._workers = 0
        self._level = logging.NOTSET

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report inside the block."""
        if not self._workers:
            self._level = LOGGER.level
            LOGGER.setLevel(logging.INFO)
            self.handler.setLevel(logging.INFO)
        self._workers += 1
        try:
            yield
        finally:
            self._workers -= 1
            if not self._workers:
                LOGGER.setLevel(self._level)
                self.handler.setLevel(logging.WARNING)


STANDARD_ERROR: Final = StandardError()
