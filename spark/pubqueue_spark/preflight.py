"""Reports in one sentence why Spark would not start here, or not find the format.

Spark itself fails with a long trace: about a gateway that has exited if there is no Java, or about a class that was not
found if its tasks run with a Python that has no pubqueue. None of our code has run by then, so a job checks before it
makes a session:

    if problem := preflight.problem():
        sys.exit(problem)
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVAS: Final = (17, 21, 25)
VERSION: Final = re.compile(r'version "(\d+)')
PROBE: Final = """\
import sys
from importlib.util import find_spec
print(*sys.version_info[:2], find_spec("pyspark_pubqueue") is not None)
"""


def problem(env: Mapping[str, str] = os.environ) -> str | None:
    """Return what is missing on this machine, or None. A session with a server (Connect) needs nothing here."""
    if env.get("SPARK_REMOTE"):
        return None
    return _of_java(env) or _of_python(env)


def _of_java(env: Mapping[str, str]) -> str | None:
    home = env.get("JAVA_HOME")
    wanted = "java" if not home else f"{home}/bin/java"
    java = shutil.which(wanted, path=env.get("PATH"))
    if java is None:
        found = "there is none" if not home else f"JAVA_HOME={home} has none"
    else:
        output = _run(java, "-version")
        version = VERSION.search(output)
        if version is not None and int(version[1]) in JAVAS:
            return None
        found = f"{java} is Java {version[1]}" if version else f"{java} does not start"
    needed = f"{', '.join(map(str, JAVAS[:-1]))} or {JAVAS[-1]}"
    return f"Spark needs Java {needed}, and {found}: install one, or set JAVA_HOME to where it is."


def _of_python(env: Mapping[str, str]) -> str | None:
    name = env.get("PYSPARK_PYTHON") or "python3"
    python = shutil.which(name, path=env.get("PATH"))
    here = "{} {}".format(*sys.version_info)
    output = "" if python is None else _run(python, "-c", PROBE).strip()
    if output == f"{here} True":
        return None
    if python is None:
        lacks = "is not there"
    elif output == f"{here} False":
        lacks = "has no pubqueue"
    else:
        lacks = f"is not Python {here.replace(' ', '.')}, as this one is"
    return (
        f"Spark would run its tasks with {python or name}, which {lacks}: set"
        f" PYSPARK_PYTHON={sys.executable} (and on a cluster, what it is called there)."
    )


def _run(*command: str) -> str:
    """Return the output of a program; empty if it cannot be run."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - the user's own
    except (OSError, subprocess.CalledProcessError):
        return ""
    return ran.stdout + ran.stderr
