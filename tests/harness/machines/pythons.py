"""Python environments that contain some of the packages installed here, and nothing else.

Nothing is downloaded: the files of the distributions, which the lock file names, are linked.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[3]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: Final = PROJECT["optional-dependencies"]


def required(extra: str = "") -> Iterator[str]:
    """Yield the requirements of the project, or of one of its extras, with the extras that this one names.

    They are read from the tree: the metadata of the installed copy is as old as the installation.
    """
    for requirement in EXTRAS[extra] if extra else PROJECT["dependencies"]:
        inner = re.fullmatch(r"pubqueue\[(.*)\]", requirement)
        if inner:
            for one in inner[1].split(","):
                yield from required(one)
        else:
            yield requirement


def python_with(folder: Path, *requirements: str) -> Path:
    """Make an environment with the distributions and all their requirements; return its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in sorted(set(_required(*map(Requirement, requirements)))):
        _link(metadata.distribution(name), site)
    return folder / "bin" / "python"


def build_wheel(folder: Path) -> Path:
    """Build the project's wheel."""
    _run("hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, python: Path, extra: str = "") -> None:
    """Install a wheel, perhaps with an extra, whose requirements exist already."""
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    _run("pip", "--python", str(python), "install", "--no-index", "--quiet", wanted)


def _run(module: str, *arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def _required(*requirements: Requirement) -> Iterator[str]:
    """Yield the names of the requirements and of all their requirements."""
    for requirement in requirements:
        yield requirement.name
        for line in metadata.requires(requirement.name) or ():
            inner = Requirement(line)
            extras = requirement.extras or {""}
            if not inner.marker or any(inner.marker.evaluate({"extra": e}) for e in extras):
                yield from _required(inner)


def _link(distribution: metadata.Distribution, site: Path) -> None:
    """Link all files of the distribution in site-packages; its programs are left out."""
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
    for top in tops - {"__pycache__"}:
        link = site / top
        if not link.exists():  # folders such as `google` are shared between distributions
            link.symlink_to(Path(str(distribution.locate_file(top))))
