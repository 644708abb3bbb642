"""Notes at each of several services with which list of them a batch was placed, so that no other list completes it.

A driver may end when a batch is committed at one service and not at another. Run again, rows of the first are skipped,
and rows of the second are written, if each row goes where it went before. With another list, a row might go to a service
that has the batch already, and would be lost. So before the commit at a service, an empty version of another app is committed there,
whose name has a hash of the list.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from pubqueue_spark.client.ask import ask, ask_until_done
from pubqueue_spark.client.refusals import explanation
from pubqueue_spark.errors import ServiceError
from pubqueue_xeps.wire.refusals import Refusal
from pubqueue_xeps.wire.requests import transactions
from pubqueue_xeps.wire.requests.transactions import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue_spark.write.options import Settings

NAME: Final = "placement"
"""The first word of the name of such an app."""


def noted(mark: Mark, settled: Sequence[str]) -> Mark:
    """Return the mark of a note: the same version of an app that stands for this app and this list, in any order."""
    words = "\0".join([mark.app, *sorted(settled)])
    digest = hashlib.blake2b(words.encode(), digest_size=16).hexdigest()
    return Mark(f"{NAME} {digest}", mark.version)


def note(settings: Settings, all_of: Settings, mark: Mark) -> None:
    """Note the list at one service, before the batch is committed there. Raises ServiceError."""
    own = noted(mark, all_of.services.settled)
    answer, _ = ask_until_done(settings, transactions.commit(own, []), lambda _at_work: None)
    if isinstance(answer, Refusal):
        raise ServiceError(
            f"{settings.service} refused the note about {mark}, and nothing of it is visible there: {explanation(answer)}."
        )


def check(settings: Settings, mark: Mark, touched: Sequence[str]) -> None:
    """Raise ServiceError if a service has committed this batch as a part of another list of services."""
    own = noted(mark, settings.services.settled)
    for at in settings.each():
        if at.service not in touched:
            continue
        if _has(at, mark) and not _has(at, own):
            raise ServiceError(
                f"{mark} was committed at {at.service} with another list of services, and may not be complete: run it"
                " again with that list, and change the list after it. Nothing was committed now."
            )


def _has(settings: Settings, mark: Mark) -> bool:
    """Return whether a service has committed this version of an app, or a later one."""
    last = last_version(settings, mark.app)
    return last is not None and mark.version <= last


def last_version(settings: Settings, app: str) -> int | None:
    """Return the version of an app that a service has committed last; None: none. Raises ServiceError."""
    (answer,) = ask(settings, transactions.last(app))
    if isinstance(answer, Refusal):
        raise ServiceError(
            f"{settings.service} does not report the last version of {app!r}: {explanation(answer)}."
        )
    return transactions.read_last(answer)
