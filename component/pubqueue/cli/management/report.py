"""What `pubqueue doctor` finds: a line about each thing that it has looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Level(StrEnum):
    """How it is."""

    GOOD = "good"
    LOOK = "look at this"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing."""

    level: Level
    about: str
    says: str


def good(about: str, says: str) -> Finding:
    """Return that it is as it should be."""
    return Finding(Level.GOOD, about, says)


def look(about: str, says: str) -> Finding:
    """Return what somebody should look at; the service works."""
    return Finding(Level.LOOK, about, says)


def bad(about: str, says: str) -> Finding:
    """Return what does not work, or will not for long."""
    return Finding(Level.BAD, about, says)
