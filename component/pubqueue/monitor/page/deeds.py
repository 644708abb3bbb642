"""What can be done on the page: a table of deeds, each with its question, its requests, and what is said when it is done."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.core.decision import Redriven
from pubqueue.core.model import ItemId, State
from pubqueue.core.nodes.manage import Configure, Purge
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.queue.free import FreeLocks
from pubqueue.core.queue.redrive import Redrive
from pubqueue.core.reading.overviews import Freed
from pubqueue.monitor.page.words import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Asker, NodeName

log = structlog.get_logger(__name__)

AT_ONCE: Final = 1_000
"""As many items as one redrive of all takes; there may be more then."""


@unique
class Of(Enum):
    """What a deed is done to."""

    NODE = auto()
    ITEMS = auto()
    """Items that are named."""


class Deed(Struct, frozen=True):
    """Something that can be done to a node or to some of its items."""

    name: str
    operation: str
    """What it is called in the log and in the table of commands."""
    label: str
    question: str
    """`{node}` is the node, `{items}` how many items."""
    yes: str
    of: Of
    request: Callable[[Asker, NodeName, tuple[ItemId, ...]], Request]
    done: Callable[[Reply, NodeName], str]
    grave: bool = False
    """It cannot be undone."""

    def __str__(self) -> str:
        """Return its name."""
        return self.name


def _switch(setting: str, value: str) -> Callable[[Asker, NodeName, tuple[ItemId, ...]], Request]:
    def ask(by: Asker, node: NodeName, _ids: tuple[ItemId, ...]) -> Request:
        return Configure(by, node, Settings({setting: value}))

    return ask


def _redriven(reply: Reply, node: NodeName) -> str:
    number = reply.count if isinstance(reply, Redriven) else 0
    if not number:
        return (
            f"No dead item of {node} could be revived: there is none, or no room where it would go."
        )
    more = " There may be more of them." if number >= AT_ONCE else ""
    return f"{count(number, 'dead item')} of {node} live again.{more}"


def _freed(reply: Reply, node: NodeName) -> str:
    number = reply.count if isinstance(reply, Freed) else 0
    return f"{count(number, 'lock')} of {node} ended; the items wait again."


DEEDS: Final = {
    deed.name: deed
    for deed in (
        Deed(
            *("pause", "pause", "Pause", "Shall {node} hand out nothing until it is resumed?"),
            *("Yes, pause it", Of.NODE, _switch("paused", "1")),
            lambda _reply, node: f"{node} hands out nothing until it is resumed.",
        ),
        Deed(
            *("resume", "resume", "Resume", "Shall {node} hand out items again?"),
            *("Yes, resume it", Of.NODE, _switch("paused", "0")),
            lambda _reply, node: f"{node} hands out again.",
        ),
        Deed(
            *("redrive", "redrive", "Redrive all dead items"),
            "Shall the dead items of {node} have another life? They go back to where they came from, and count as never having failed.",
            *("Yes, redrive them", Of.NODE),
            lambda by, node, _ids: Redrive(by, node),
            _redriven,
        ),
        Deed(
            *("redrive-items", "redrive", "Redrive"),
            "Shall {items} of {node} have another life? They go back to where they came from, and count as never having failed.",
            *("Yes, redrive", Of.ITEMS),
            Redrive,
            _redriven,
        ),
        Deed(
            *("release", "release", "Release"),
            "Shall the locks of {items} of {node} end? Others get them at once, and it counts as nobody's failure.",
            *("Yes, release", Of.ITEMS),
            FreeLocks,
            _freed,
        ),
        Deed(
            *("purge", "purge", "Purge"),
            "Shall all items of {node} be deleted, those that workers hold too? They cannot be brought back.",
            *("Yes, delete all items", Of.NODE),
            lambda by, node, _ids: Purge(by, node),
            lambda _reply, node: f"All items of {node} are deleted.",
            grave=True,
        ),
    )
}

OF_STATE: Final = {State.DEAD: DEEDS["redrive-items"], State.LOCKED: DEEDS["release"]}
"""What can be done to items in a state."""


def note(deed: Deed, by: Asker, node: NodeName, ids: tuple[ItemId, ...], remote: str) -> None:
    """Write the line of the audit log: who has done what to which node, from where; never a word of a payload."""
    words: dict[str, object] = {"items": len(ids)} if ids else {}
    log.info("operation", operation=deed.operation, by=by.jid, node=node, remote=remote, **words)
