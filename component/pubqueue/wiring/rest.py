"""The settings that the face of REST gets. Imported only where REST is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.config.rest import prefixes, push_terms, rest_proxies
from pubqueue.faces.listener import Bounds
from pubqueue.faces.rest.face import RestFace
from pubqueue.faces.rest.hornetq.routes import profile as hornetq
from pubqueue.faces.rest.settings import RestTerms
from pubqueue.faces.rest.star.routes import profile as rest_star
from pubqueue.faces.xmpp.xml.fields import wanted
from pubqueue.model.entities import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.config.settings import Settings
    from pubqueue.faces.rest.links import Profile


PROFILES = {"rest-star": rest_star, "hornetq": hornetq}
"""How each profile is made, from its prefix."""


def profiles_of(settings: Settings) -> list[Profile]:
    """Return the profiles that are served."""
    return [PROFILES[name](prefix) for name, prefix in prefixes(settings).items()]


def terms_of(settings: Settings) -> RestTerms:
    """Return the settings of the face."""
    rest = settings.rest
    return RestTerms(
        base_url=rest.base_url,
        proxies=rest_proxies(settings),
        plain_http=rest.plain_http,
        cors_origins=frozenset(rest.cors_origins),
        push=push_terms(settings),
        nothing=rest.nothing,
        dups_ok=rest.dups_ok,
        once_for=seconds(rest.once_for),
        settled_for=seconds(rest.settled_for),
        consumer_idle=rest.consumer_idle,
        longest_wait=rest.longest_wait,
        max_body=rest.max_body,
        max_batch_body=rest.max_batch_body,
        max_batch=rest.max_batch,
        max_waiting=rest.max_waiting,
        max_waiting_of_account=rest.max_waiting_of_account,
        body_timeout=rest.body_timeout,
        settings=wanted,
    )


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds of the host, if REST has one of its own."""
    rest = settings.rest
    return Bounds(
        connections=rest.max_connections,
        per_peer=max(1, rest.max_connections // 4),
        login=0,
        unread=rest.write_timeout,
    )


class RestReload:
    """Applies the table `[rest]` to the faces of REST among these."""

    def __init__(self, faces: Iterable[object]) -> None:
        self._faces = [face for face in faces if isinstance(face, RestFace)]

    def take_settings(self, settings: Settings) -> None:
        """Apply the settings from the next request on."""
        for face in self._faces:
            face.terms = terms_of(settings)
