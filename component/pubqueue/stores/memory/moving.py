"""The winners of a version as rows: those of an open version to look at, of a committed one to be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.core.model import NO_TIME
from pubqueue.core.transactions.model import WinnerRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.app import listings as l
    from pubqueue.core.model import ItemId, NodeName
    from pubqueue.stores.memory.contents import Contents


def winner_rows(
    contents: Contents, which: l.WinnerRows, after: tuple[int, int] | None
) -> Iterator[WinnerRow]:
    """Iterate over rows behind a part and a row of it; of a committed version there are no other attempts."""
    staging, room = contents.staging, which.room
    key = which.app, which.version
    if which.parts is None and key in staging.versions.rows:
        return  # it is not committed
    named = None if which.parts is None else set(which.parts)
    attempts = sorted(
        (one.attempt.part, one.attempt.number, one.number)
        for one in staging.attempts_of(key)
        if named is None or (one.attempt.part, one.attempt.number) in named
    )
    last: dict[tuple[NodeName, ItemId], int] = {}
    for part, _, attempt in attempts:
        last.update(dict.fromkeys(staging.rows(attempt), part))
    for part, number, attempt in attempts:
        for at, ((node, name), item) in enumerate(staging.rows(attempt).items()):
            if after is not None and (part, at) <= after:
                continue
            if room <= 0:
                return
            room -= len(item.draft.payload)
            draft = replace(item.draft, delay=item.pause or NO_TIME, ttl=item.life)
            superseded = last[node, name] > part
            yield WinnerRow(
                part, number, at, node, replace(item, draft=draft, over=None), superseded
            )


def unmoved(contents: Contents, _which: l.Unmoved, _after: object) -> Iterator[tuple[str, int]]:
    """Iterate over committed versions of which something is still to be moved."""
    yield from contents.staging.unmoved()
