"""The table `[alerts]`: the targets of alerts, the bounds of queues, and what is refused."""

from __future__ import annotations

from functools import cached_property
from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
from slixmpp.jid import JID, InvalidJID

from pubqueue.faces.checks import ConfigError
from pubqueue.faces.push.targets import PushTerms, TargetError, read
from pubqueue.model.entities import seconds
from pubqueue.rules.alerts import AlertTerms, QueueRule

if TYPE_CHECKING:
    from collections.abc import Sequence

USUAL = AlertTerms()
RULE = QueueRule()

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Span = Annotated[float, msgspec.Meta(ge=0, le=31_622_400)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class AlertRuleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When something is wrong with a queue; for each queue the first rule that matches its name applies."""

    nodes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = RULE.nodes
    """Patterns of names: `*` stands for any characters, `?` for one, `[ab]` for one of these."""
    dead: _Count = RULE.dead
    """Dead items from which on there is an alert; 0: never."""
    oldest: _Span = RULE.oldest / 1000
    """Seconds that an item may wait. Those that wait for a delay or a retry do not count, nor do paused queues. 0: any time."""
    no_workers: _Span = RULE.no_workers / 1000
    """Seconds for which items may wait without an available worker, unless the queue is paused; 0: any time."""

    def rule(self) -> QueueRule:
        """Return it as the rules take it."""
        return QueueRule(self.nodes, self.dead, seconds(self.oldest), seconds(self.no_workers))


class AlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Messages to people, rooms and webhooks when something is wrong ([how to](../operations/alerts.md)). Without a target there are no alerts."""

    to: tuple[str, ...] = ()
    """JIDs that are sent a message. They need `server`."""
    rooms: tuple[str, ...] = ()
    """JIDs of rooms (XEP-0045): the service enters one, sends its message, and leaves. They need `server`."""
    nick: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "pubqueue"
    """The name of the service in rooms."""
    webhooks: tuple[str, ...] = ()
    """URLs that JSON is posted to, `http://` or `https://`. Redirects are not followed."""
    webhook_networks: tuple[str, ...] = ()
    """Networks that webhooks may be in although their addresses are not global, such as `10.1.0.0/16`."""
    webhook_timeout: Annotated[float, msgspec.Meta(gt=0, le=300)] = 10.0
    """Seconds for one post, connecting included."""
    every: Annotated[float, msgspec.Meta(ge=0.1, le=3_600)] = 15.0
    """Seconds between two looks at all queues."""
    over_after: _Span = USUAL.over_after / 1000
    """Seconds for which something has to be well until its alert is over, so that what comes and goes is one alert."""
    disk_free: _Count = USUAL.disk_free
    """Bytes that have to be free on the disk of a store of SQLite; 0: any number."""
    quota: _Share = USUAL.quota
    """The share of one of its limits that an account may use; 0: any share."""
    rule: tuple[AlertRuleSettings, ...] = ()
    """Bounds for queues by their names; tables `[[alerts.rule]]` in the file, JSON in the variable. If there is none, the bounds of
    an empty one apply to all queues."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return every setting to show; of webhooks only the hosts, because their paths may be secrets."""
        shown = {field: getattr(self, field) for field in self.__struct_fields__}
        return list((shown | {"webhooks": tuple(map(shown_target, self.webhooks))}).items())

    def __repr__(self) -> str:
        """Show the settings without what may be secret, because they may appear in a traceback."""
        shown = ", ".join(f"{field}={value!r}" for field, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets."""
        return (*self.to, *self.rooms, *self.webhooks)

    def terms(self) -> AlertTerms:
        """Return the bounds as the rules take them."""
        return AlertTerms(
            rules=tuple(one.rule() for one in self.rule) or (RULE,),
            over_after=seconds(self.over_after),
            disk_free=self.disk_free,
            quota=self.quota,
        )

    @cached_property
    def push_terms(self) -> PushTerms:
        """What may be called: exactly the webhooks, at global addresses and those of `webhook_networks`.

        Raises:
            ConfigError: a URL or a network cannot be read.

        """
        key = "alerts.webhooks"
        try:
            targets = tuple(read(url) for url in self.webhooks)
        except TargetError as problem:
            raise ConfigError(f"{key}: {problem}", key=key) from None
        key = "alerts.webhook_networks"
        try:
            networks = tuple(ip_network(text) for text in self.webhook_networks)
        except ValueError as problem:
            raise ConfigError(f"{key} must be networks: {problem}", key=key) from None
        return PushTerms(push_to=targets, networks=networks, timeout=self.webhook_timeout, hops=0)

    def check(self, service: str, server: str) -> None:
        """Check what the types do not; `service` is the JID of the service, and `server` the server of XMPP.

        Raises:
            ConfigError: a target is not one, or needs a server; or there are rules, and no targets.

        """
        for key, jids in (("to", self.to), ("rooms", self.rooms)):
            if jids and not server:
                raise ConfigError(
                    f"alerts.{key} needs an XMPP server, and server is empty: use alerts.webhooks",
                    key=f"alerts.{key}",
                )
            _check_jids(f"alerts.{key}", jids, service, bare=key == "rooms")
        _ = self.push_terms
        if self.rule and not self.targets:
            raise ConfigError(
                "alerts.rule is set, and there is no target: set alerts.to, alerts.rooms or alerts.webhooks",
                key="alerts.rule",
            )


def _check_jids(key: str, jids: Sequence[str], service: str, *, bare: bool) -> None:
    """Check that these are JIDs that a server of XMPP knows: those of the service itself are not."""
    for text in jids:
        try:
            jid = JID(text)
        except InvalidJID:
            jid = JID("")
        if not jid.user or (bare and jid.resource):
            what = "the JID of a room, such as ops@rooms.example.org"
            wanted = what if bare else "a JID, such as anna@example.org"
            raise ConfigError(f"{key}: {text!r} must be {wanted}", key=key, value=text)
        if jid.domain == JID(service).domain:
            raise ConfigError(
                f"{key}: {text!r} logs in to the service itself, and gets no messages of XMPP",
                key=key,
                value=text,
            )


def shown_target(target: str) -> str:
    """Return what may be shown of a target: a JID, or the scheme and host of a URL, because its path may be a secret."""
    if "://" not in target:
        return target
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
