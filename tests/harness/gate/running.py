"""Runs pytest for the gate: the set of each day, parts of `long`, red cases again; prints the table and returns the verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from harness.gate import change, long
from harness.gate.cases import MAX_RED, NEWEST, PYTHON, Case, Flaky, Verdict, judge, table
from harness.gate.touched import Touched

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED: Final = 1
"""The exit code of pytest when cases failed; any other but 0 is a fault of the run."""
CI_SECONDS: Final = 4200.0
"""What all of CI may take, set-up included. The machines that run it end whatever takes much longer, without a verdict."""


@dataclass(frozen=True)
class Gate:
    """The checkout that is judged, and how."""

    root: Path
    processes: str = "3"
    since: str = change.EMPTY
    verdicts: list[Verdict] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Parts of `long` that the change forces and for which CI had no time."""

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files of the change."""
        return change.paths(self.root, self.since)

    @property
    def seed(self) -> int:
        """The seed of the commit."""
        return change.seed(self.root) or 0

    def daily(self) -> Verdict:
        """Run what each commit has to pass."""
        return self._judged("tests")

    def parts(self, names: Sequence[str], *, refuses: bool = True) -> None:
        """Run parts of `long`: together, but apart from those that look again at what each commit has to pass."""
        parts = [long.BY_NAME[name] for name in names]
        for deeper, newest in ((False, False), (True, False), (False, True)):
            if together := [p for p in parts if p.kind == (deeper, newest)]:
                files = sorted({file for part in together for file in part.files(self.root)})
                chosen = [*(f"--part={part.name}" for part in together), *files]
                limit = max(part.limit for part in together)
                how = ["-o", f"faulthandler_timeout={limit}", *(["--deep"] if deeper else [])]
                name = f"long: {', '.join(part.name for part in together)}"
                if not newest:
                    self._judged(name, chosen, how, refuses=refuses)
                elif subprocess.run(
                    [self.root / "tools" / "newest_python"], cwd=self.root, check=False
                ).returncode:
                    fault = "tools/newest_python failed"
                    self.verdicts.append(Verdict(name, (), fault=fault, refuses=refuses))
                else:
                    self._judged(name, chosen, how, python=NEWEST, refuses=refuses)

    def ci(self) -> None:
        """Run what each commit has to pass, the parts that the change forces, and the one whose turn it is, within `CI_SECONDS`.

        They are counted from `CI_BEGAN`, the time at which `.ci/run` began, if the environment has it. The day's cases show how fast the
        machine is. A part that would not end in time is not begun: it is named at the end, and the author runs it.
        """
        ends = float(os.environ.get("CI_BEGAN") or time.time()) + CI_SECONDS
        began = time.monotonic()
        self.daily()
        pace = max(1.0, (time.monotonic() - began) / long.DAILY_SECONDS)
        forced, number = long.forced(self.paths), change.number(self.root)
        print(
            f"gate: the change since {self.since[:12]} forces {', '.join(forced) or 'no part'} of long",
            flush=True,
        )
        print(f"gate: this machine takes {pace:.1f} times what a quiet one takes", flush=True)
        waiting = long.in_turn(forced, number)
        while fit := long.fitting(waiting, ends - time.time(), pace):
            alike = [name for name in fit if long.BY_NAME[name].kind == long.BY_NAME[fit[0]].kind]
            self.parts(alike)
            waiting = [name for name in waiting if name not in alike]
        self.left_out.extend(waiting)
        turn = long.turn(number, forced)
        if turn and long.fitting([turn], ends - time.time(), pace):
            self.parts([turn], refuses=False)

    def ended(self) -> int:
        """Print the flaky cases with both outputs, and the table; return the exit code of all runs."""
        for verdict in self.verdicts:
            for one in verdict.flaky:
                self._keep(one)
        print(f"\n{'=' * 20} the gate, at seed {self.seed} {'=' * 20}")
        print(table(self.verdicts, self.seed))
        for name in self.left_out:
            print(
                f"     left out  {name} of long, which the change forces: make test-long PART={name}"
            )
        failed = [verdict for verdict in self.verdicts if verdict.failed]
        for verdict in failed:
            if not verdict.refuses:
                print(
                    f"\n{'!' * 80}\n{verdict.name} IS RED. Only its turn chose it, so this change is not refused; mend the cause.\n{'!' * 80}"
                )
        return int(any(verdict.refuses for verdict in failed))

    def _judged(
        self,
        name: str,
        chosen: Sequence[str] = (),
        how: Sequence[str] = (),
        *,
        python: str = PYTHON,
        refuses: bool = True,
    ) -> Verdict:
        """Run the cases that are chosen, and the red ones again in the same way."""
        began = time.monotonic()
        print(f"gate: {name}, seed {self.seed}", flush=True)
        code, cases = self._run(python, ["-n", self.processes, *how, *chosen])
        red = [case for case in cases if not case.passed]
        fault = (
            "" if code in {0, FAILED} and bool(red) == bool(code) else f"pytest ended with {code}"
        )
        again = partial(self._again, python, how)
        stay, flaky = judge(red, again, Touched(self.root, self.paths)) if not fault else (red, [])
        if len(red) > MAX_RED:
            print(f"gate: {len(red)} cases are red, more than {MAX_RED}: none is run again")
        print(f"gate: {name} took {time.monotonic() - began:.0f} s", flush=True)
        for part, seconds in long.shares(cases).items():
            print(f"gate: of its cases' seconds, {part}: {seconds:.0f}", flush=True)
        verdict = Verdict(name, cases, stay, flaky, fault, refuses, python)
        self.verdicts.append(verdict)
        return verdict

    def _again(self, python: str, how: Sequence[str], test: str) -> Case:
        """Run a red case alone, in a process of its own, and print what that printed."""
        print(f"gate: again, alone: {test}", flush=True)
        with tempfile.TemporaryFile("w+") as output:
            code, cases = self._run(python, ["-n", "0", "-rA", "--no-header", *how, test], output)
            output.seek(0)
            printed = output.read()
        print(printed, flush=True)
        return Case(test, sum(case.seconds for case in cases), printed, passed=code == 0)

    def _run(
        self, python: str, words: Sequence[str], output: IO[str] | None = None
    ) -> tuple[int, list[Case]]:
        """Run pytest, with its output on this one's unless there is a file for it; return how it ended and its cases."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            line = [
                sys.executable if python == PYTHON else python,
                "-I",
                "-m",
                "pytest",
                f"--report={report}",
                f"--randomly-seed={self.seed}",
                *words,
            ]
            code = subprocess.run(
                line, cwd=self.root, stdout=output, stderr=output, check=False
            ).returncode
            if not report.exists():
                return code or FAILED, []
            return code, [Case(**case) for case in json.loads(report.read_text())]

    def _keep(self, one: Flaky) -> None:
        """Print both outputs of a flaky case, and keep them in `build/flaky`."""
        folder = self.root / "build" / "flaky"
        folder.mkdir(parents=True, exist_ok=True)
        name = "".join(letter if letter.isalnum() else "-" for letter in one.red.test)[-120:]
        text = (
            f"{one.red.test}\nseed {self.seed}, load {os.getloadavg()}\n\n"
            f"in the run, {one.red.seconds:.1f} s:\n{one.red.output}\nalone, {one.alone.seconds:.1f} s:\n{one.alone.output}\n"
        )
        (folder / f"{name}.txt").write_text(text)
        print(f"\nflaky: {text}")
