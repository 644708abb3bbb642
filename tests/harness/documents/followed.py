"""A page that is followed as by a person with several open terminals: its commands are run, and its output is compared.

A comment before a `console` block names its terminal, unless it is the last one's. The text after `$` is typed, and the lines
below it are the output; `...` stands for lines that are left out. Numbers of one digit have to be as printed, and so have all
words; longer numbers, spans of time, moments, rates and the random ends of names differ in each run. A command that only reads is
repeated until its output matches, because a page says "after a while" in words. `^C` ends the program in a terminal.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import time
from itertools import groupby
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
LOOKS_SHOWN: Final = 12
"""The last outputs of a failure; those with the same count once."""

SHAPES: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "MOMENT"),
    (re.compile(r"\b\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?"), "SPAN"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-NAME"),
    (re.compile(r"\b\d+\.\d+"), "RATE"),
    (re.compile(r"\d{2,}"), "NUMBER"),
)
"""Parts that differ from run to run, and their placeholders, in the order in which they are searched."""


class Step(NamedTuple):
    """Input for a terminal, and its output."""

    terminal: str
    typed: str
    shown: Sequence[str]


class Look(NamedTuple):
    """The output of a command at a time."""

    at: float
    """Seconds since the step began."""
    lines: Sequence[str]


class File(NamedTuple):
    """A program to write, under the name in its first line."""

    name: str
    text: str


def steps(page: str) -> Iterator[Step | File]:
    """Yield the steps of a page, in its order."""
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
    """Return the words of a line, without parts that differ from run to run."""
    for pattern, name in SHAPES:
        line = pattern.sub(name, line)
    return line.split()


def is_shown(wanted: Sequence[str], lines: Sequence[str]) -> bool:
    """Return whether these lines match the output on a page."""
    found = [shape(line) for line in lines if line.strip()]
    hoped = [shape(line) for line in wanted if line not in {"", REST}]
    if REST not in wanted:
        return len(hoped) == len(found) and all(map(is_alike, hoped, found))
    rest = iter(found)
    return all(any(is_alike(line, one) for one in rest) for line in hoped)


def is_alike(hoped: Sequence[str], found: Sequence[str]) -> bool:
    """Return whether a line matches the expected one, word by word."""
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
        """`adapted` converts the input on a page to the input here: ports are others."""
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
        """Run it, and wait until its output matches the page.

        Raises:
            AssertionError: its output is different.

        """
        if isinstance(step, File):
            (self._folder / step.name).write_text(step.text)
        elif step.typed == INTERRUPT:
            process = self._at_work.pop(step.terminal)
            process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
            lines = self._said(step.terminal)
            assert is_shown([REST, *step.shown], lines), differs(step, [Look(0, lines)])
        elif step.typed.startswith("pubqueue worker"):
            self._at_work[step.terminal] = await self._begun(step, "exec ")  # the signal is for it
            await self._until(step, lambda: self._read(step))
        elif only_looks(step.typed):
            await self._until(step, lambda: self._shown(step))
        else:
            lines = await self._shown(step)
            assert is_shown(step.shown, lines), differs(step, [Look(0, lines)])

    async def _until(self, step: Step, look: Callable[[], Awaitable[list[str]]]) -> None:
        begin, looks = time.monotonic(), list[Look]()

        async def is_so() -> bool:
            lines = await look()
            looks.append(Look(time.monotonic() - begin, lines))
            return is_shown(step.shown, lines)

        try:
            await until(is_so, every=LOOK)
        except TimeoutError:
            raise AssertionError(differs(step, looks)) from None

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
    """Return whether a command may be repeated."""
    program, *words = shlex.split(typed)
    return program != "python" and not (program == "pubqueue" and words[0] in ONCE)


def differs(step: Step, looks: Sequence[Look]) -> str:
    """Return the expected output, and the actual one, look by look: this shows whether one came too early or too late."""
    alike = [list(same) for _, same in groupby(looks, key=lambda look: look.lines)]
    report = [f"$ {step.typed}", *step.shown]
    if len(alike) > LOOKS_SHOWN:
        report.append(f"--- {len(alike) - LOOKS_SHOWN} others before:")
    for first, *_ in alike[-LOOKS_SHOWN:]:
        report += [f"--- has shown after {first.at:.1f} s:", *first.lines]
    return "\n".join([*report, f"--- after {len(looks)} looks in all"])
