"""Facts for secrets of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.rows import SECRETS
from pubqueue.rules.once import KeepSecretFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.once import KeepSecret


def for_secret(context: Context, request: KeepSecret) -> KeepSecretFacts:
    """Return the secret of the name."""
    return KeepSecretFacts(context.rows.row(SECRETS, request.proposed.name))
