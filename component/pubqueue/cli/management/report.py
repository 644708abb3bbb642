"""The findings of `pubqueue doctor`: a line about each thing that it has checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Level(StrEnum):
    """How serious a finding is."""

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
    """Return a finding that all is well."""
    return Finding(Level.GOOD, about, says)


def look(about: str, says: str) -> Finding:
    """Return a warning; the service works."""
    return Finding(Level.LOOK, about, says)


def bad(about: str, says: str) -> Finding:
    """Return a finding about what does not work, or soon will not."""
    return Finding(Level.BAD, about, says)
