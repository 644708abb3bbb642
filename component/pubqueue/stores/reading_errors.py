"""Why a file cannot be opened: its owner, and the user of this process."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def why(path: Path, problem: OSError, wanted: int = os.R_OK) -> str:
    """Return the error of the system, and for missing permissions the owner and mode of the obstacle.

    That is the file, or the first folder on the way to it that does not let this user pass.
    """
    reason = problem.strerror or str(problem)
    if not isinstance(problem, PermissionError):
        return reason
    return reason + in_the_way(path, wanted)


def in_the_way(path: Path, wanted: int = os.R_OK) -> str:
    """Return ` (... belongs to ...)` about the obstacle between this user and a file; empty if there is none."""
    there = path.absolute()
    for one in (*reversed(there.parents), there):
        is_last = one == there
        try:
            found = one.stat()
        except OSError:
            return ""
        if not os.access(one, wanted if is_last else os.X_OK, effective_ids=True):
            owner = f"{_user(found.st_uid)}:{_group(found.st_gid)}"
            mode = stat.S_IMODE(found.st_mode)
            return f" ({one} belongs to {owner}, mode {mode:04o}; this is {_user(os.geteuid())})"
    return ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
