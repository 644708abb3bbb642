"""The settings of the face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.faces.push.terms import PushTerms
from pubqueue.model.entities import Millis, seconds
from pubqueue.rules.nodeconfig import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network

WORD: Final = "rest"
"""The word of the face, in `faces` of a user and in addresses."""


def _by_names(form: Mapping[str, Sequence[str]]) -> Settings:
    return Settings({name: "\n".join(values) for name, values in form.items()})


class RestTerms(Struct, frozen=True, kw_only=True):
    """The settings of the face. Times are in seconds unless they are `Millis`.

    `settings` reads the fields of a node's form.
    """

    base_url: str = ""
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    plain_http: bool = False
    cors_origins: frozenset[str] = frozenset()
    push: PushTerms = PushTerms()
    nothing: int = 503
    dups_ok: bool = True
    once_for: Millis = seconds(86_400)
    settled_for: Millis = seconds(600)
    consumer_idle: float = 300.0
    longest_wait: float = 60.0
    max_body: int = 262_144
    max_batch_body: int = 4 << 20
    max_batch: int = 1000
    max_waiting: int = 2000
    max_waiting_of_account: int = 500
    body_timeout: float = 30.0
    settings: Callable[[Mapping[str, Sequence[str]]], Settings] = _by_names
