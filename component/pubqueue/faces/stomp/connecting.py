"""CONNECT and CONNECTED: the version, the heart-beats, and the credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue import __version__
from pubqueue.faces.stomp.codec import VERSIONS, Frame, HeartBeats, best_of, heart_beats_of
from pubqueue.faces.stomp.problems import Message, Problem

if TYPE_CHECKING:
    from pubqueue.faces.stomp.codec import Version
    from pubqueue.faces.stomp.terms import Terms

SERVER: Final = f"pubqueue/{__version__}"

MARGIN: Final = 1.0
"""Seconds beyond twice the interval after which a client that has promised beats is disconnected."""

EAGER: Final = 0.8
"""The part of the promised interval after which we send a beat if nothing else was sent."""


class Greeting(Struct, frozen=True):
    """The contents of a CONNECT. `beats` are ours, as agreed."""

    version: Version
    beats: HeartBeats
    login: str
    passcode: str

    def __repr__(self) -> str:
        """Show nothing of a passcode."""
        return f"Greeting({self.version.name})"

    @property
    def silence(self) -> float:
        """Seconds without a byte from the client after which it is disconnected; 0: never."""
        return 2 * self.beats.wants / 1000 + MARGIN if self.beats.wants else 0.0

    @property
    def pause(self) -> float:
        """Seconds after which we send a beat; 0: never."""
        return EAGER * self.beats.sends / 1000


def greeting(frame: Frame, terms: Terms) -> Greeting | Problem:
    """Return the contents of a CONNECT."""
    headers = frame.headers
    version = best_of(headers.get("accept-version"), terms.versions)
    if version is None:
        return _no_version(terms)
    offered = heart_beats_of(headers.get("heart-beat"))
    if offered is None:
        words = "heart-beat has to be two whole numbers of milliseconds with a comma between them"
        return Problem(Message.BAD_HEART_BEAT, words)
    host = headers.get("host")
    if terms.hosts and host is not None and host not in terms.hosts:
        return Problem(Message.UNKNOWN_HOST, "the service does not have this name")
    beats = _ours(terms).agreed_with(offered)
    return Greeting(version, beats, headers.get("login", ""), headers.get("passcode", ""))


def connected(greeted: Greeting, terms: Terms, session: str) -> Frame:
    """Return the answer to a client that has logged in."""
    headers = {
        "version": greeted.version.name,
        "heart-beat": _ours(terms).shown,
        "server": SERVER,
        "session": session,
    }
    return Frame("CONNECTED", headers)


def _ours(terms: Terms) -> HeartBeats:
    return HeartBeats(terms.heart_beat, terms.heart_beat)


def _no_version(terms: Terms) -> Problem:
    names = [name for name, version in VERSIONS.items() if version in terms.versions]
    return Problem(
        Message.UNSUPPORTED_VERSION,
        f"the service speaks STOMP {', '.join(names)}",
        (("version", ",".join(names)),),
    )
