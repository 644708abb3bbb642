"""A page that is followed as a person would who has several terminals open: what it types is run, what it shows is compared.

Before a `console` block a comment says whose terminal it is, unless it is the last one's. What stands behind `$` is typed, and under it is what that shows; lines
are left out where `...` stands. Numbers of one digit have to be as they are printed, and so have all words; longer numbers, spans of
time, moments, rates and the ends of names made at random are others in each run. A command that only looks is repeated until it
shows what the page says, for a page says "after a while" in words. `^C` ends what runs in a terminal.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from harness.patience import TIMEOUT, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

STEP: Final = re.compile(
    r"(?:^<!-- ([^\n]+) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
INTERRUPT: Final = "^C"
REST: Final = "..."
ONCE: Final = frozenset({"pause", "resume", "redrive"})
"""Commands of pubqueue that change something."""
LOOK: Final = 0.1
"""Seconds between two looks."""

SHAPES: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "MOMENT"),
    (re.compile(r"\b\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?"), "SPAN"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-NAME"),
    (re.compile(r"\b\d+\.\d+"), "RATE"),
    (re.compile(r"\d{2,}"), "NUMBER"),
)
"""What differs from run to run, and what stands for it, in the order in which it is looked for."""


class Step(NamedTuple):
    """Something to type in a terminal, and what it shows."""

    terminal: str
    typed: str
    shown: Sequence[str]


class File(NamedTuple):
    """A program to write, under the name in its first line."""

    name: str
    text: str


def steps(page: str) -> Iterator[Step | File]:
    """Yield what a page has done, in its order."""
    terminal = ""
    for said, language, text in STEP.findall(page):
        terminal = said or terminal
        if language == "python":
            yield File(text.partition("\n")[0].removeprefix("# ").strip(), text)
        elif language == "console":
            for line in re.split(r"^(?=\$ |\^C$)", text, flags=re.MULTILINE)[1:]:
                typed, *shown = line.splitlines()
                yield Step(terminal, typed.removeprefix("$ "), shown)


def shape(line: str) -> list[str]:
    """Return the words of a line, without what differs from run to run."""
    for pattern, name in SHAPES:
        line = pattern.sub(name, line)
    return line.split()


def is_shown(wanted: Sequence[str], lines: Sequence[str]) -> bool:
    """Say whether these lines are as a page shows them."""
    found = [shape(line) for line in lines if line.strip()]
    hoped = [shape(line) for line in wanted if line not in {"", REST}]
    if REST not in wanted:
        return len(hoped) == len(found) and all(map(is_alike, hoped, found))
    rest = iter(found)
    return all(any(is_alike(line, one) for one in rest) for line in hoped)


def is_alike(hoped: Sequence[str], found: Sequence[str]) -> bool:
    """Say whether a line is as it is hoped for, word by word."""
    return len(hoped) == len(found) and all(
        one == other or (one == "NUMBER" and other.isdigit())
        for one, other in zip(hoped, found, strict=True)
    )


class Terminals:
    """Those of a page by name, each with its environment, in one folder. An async context manager."""

    def __init__(
        self,
        folder: Path,
        environments: Mapping[str, Mapping[str, str]],
        adapted: Callable[[str], str] = str,
    ) -> None:
        """`adapted` makes of what a page types what is typed here: ports are others."""
        self._folder, self._environments, self._adapted = folder, environments, adapted
        self._at_work: dict[str, asyncio.subprocess.Process] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for process in self._at_work.values():
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def follow(self, step: Step | File) -> None:
        """Do it, and wait until it shows what the page shows.

        Raises:
            AssertionError: it shows something else.

        """
        if isinstance(step, File):
            (self._folder / step.name).write_text(step.text)
        elif step.typed == INTERRUPT:
            process = self._at_work.pop(step.terminal)
            process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
            lines = self._said(step.terminal)
            assert is_shown([REST, *step.shown], lines), differs(step, lines)
        elif step.typed.startswith("pubqueue worker"):
            self._at_work[step.terminal] = await self._begun(step, "exec ")  # the signal is for it
            await self._until(step, lambda: self._read(step))
        elif only_looks(step.typed):
            await self._until(step, lambda: self._shown(step))
        else:
            lines = await self._shown(step)
            assert is_shown(step.shown, lines), differs(step, lines)

    async def _until(self, step: Step, look: Callable[[], Awaitable[list[str]]]) -> None:
        lines: list[str] = []

        async def is_so() -> bool:
            nonlocal lines
            lines = await look()
            return is_shown(step.shown, lines)

        try:
            await until(is_so, every=LOOK)
        except TimeoutError:
            raise AssertionError(differs(step, lines)) from None

    async def _read(self, step: Step) -> list[str]:
        return self._said(step.terminal)

    async def _shown(self, step: Step) -> list[str]:
        process = await self._begun(step)
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return self._said(step.terminal)

    async def _begun(self, step: Step, how: str = "") -> asyncio.subprocess.Process:
        with self._log(step.terminal).open("wb") as log:
            return await asyncio.create_subprocess_exec(
                *("sh", "-c", how + self._adapted(step.typed)),
                cwd=self._folder,
                env=self._environments[step.terminal],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, terminal: str) -> Path:
        return self._folder / f"{terminal}.log"

    def _said(self, terminal: str) -> list[str]:
        return self._log(terminal).read_text().splitlines()


def only_looks(typed: str) -> bool:
    """Say whether a command may be repeated."""
    program, *words = shlex.split(typed)
    return program != "python" and not (program == "pubqueue" and words[0] in ONCE)


def differs(step: Step, lines: Sequence[str]) -> str:
    """Say what was to be seen, and what was."""
    return "\n".join([f"$ {step.typed}", *step.shown, "--- has shown:", *lines])
