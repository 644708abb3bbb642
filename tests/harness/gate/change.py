"""The change that a run of the gate judges: its base, its paths, and the seed that follows from its commit."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

WINDOW: Final = "6 hours"
"""Without a branch of others to compare with, a change is what was committed within this time of its last commit."""
EMPTY: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files, by which git names the beginning."""
SEED_DIGITS: Final = 8
"""The digits of a commit's name that make the seed, 32 bits."""


def base(root: Path) -> str:
    """Return the commit after which the change begins.

    It is `CHANGE_BASE`, if the environment has it; where the branch that others have is behind this one, the commit at which
    they part; otherwise the last commit that is more than `WINDOW` older than this one.
    """
    if named := os.environ.get("CHANGE_BASE"):
        return named
    head = _git(root, "rev-parse", "HEAD")
    shared = _git_or_nothing(root, "merge-base", "HEAD", "origin/main")
    if shared and shared != head:
        return shared
    at = int(_git(root, "show", "--no-patch", "--format=%ct", "HEAD"))
    hours = int(WINDOW.split()[0])
    return _git(root, "rev-list", "-1", f"--before={at - hours * 3600}", "HEAD") or EMPTY


def paths(root: Path, since: str) -> frozenset[str]:
    """Return the files that differ from that commit, with those that are not committed; a file that moved is two."""
    changed = _git(root, "diff", "--name-only", "--no-renames", since)
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    return frozenset(filter(None, [*changed.splitlines(), *new.splitlines()]))


def seed(root: Path) -> int | None:
    """Return the seed of the order and of all draws: the beginning of the commit's name; None outside a clone."""
    head = _git_or_nothing(root, "rev-parse", "HEAD")
    return int(head[:SEED_DIGITS], 16) if head else None


def number(root: Path) -> int:
    """Return how many commits led here: it chooses the part of `long` whose turn it is."""
    return int(_git(root, "rev-list", "--count", "HEAD"))


def _git(root: Path, *words: str) -> str:
    """Return what git prints; what it refuses is on stderr, and an error."""
    done = subprocess.run(
        ["git", "-C", root, *words], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def _git_or_nothing(root: Path, *words: str) -> str:
    """Return what git prints, or "" if it fails: there is no clone, or no branch of others."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
