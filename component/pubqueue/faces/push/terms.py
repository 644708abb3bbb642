"""The settings of pushes: which targets may be called, and for how long."""

from __future__ import annotations

from msgspec import Struct

from pubqueue.faces.push.targets import Network, Target  # noqa: TC001  # msgspec reads them


class PushTerms(Struct, frozen=True, kw_only=True):
    """Which targets may be called, for how many seconds, and after how many failures in a row no more; 0: always."""

    push_to: tuple[Target, ...] = ()
    networks: tuple[Network, ...] = ()
    timeout: float = 30.0
    retries: int = 10
