"""The cases of a run as the gate judges them: red, flaky or passed, and the table at the end. Pure rules."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MAX_RED: Final = 5
"""With more red cases than this, nothing is run again: that is no accident."""
MAX_TRIES: Final = 2
"""How often a red case is run again, alone."""
SLOWEST: Final = 10
"""How many of the slowest cases the table has."""
PYTHON: Final = ".venv/bin/python"
NEWEST: Final = ".venv/newest/bin/python"
"""What `tools/newest_python` makes."""

Again = Callable[[str], "Case"]
"""Runs one case again, alone."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case that was run: its id, how many seconds it took, what it printed if that was kept, and whether it passed."""

    test: str
    seconds: float
    output: str = ""
    passed: bool = True


@dataclass(frozen=True, slots=True)
class Flaky:
    """A case that was red, and passed when it ran alone: the output of both, and why that does not pardon it ("" if it does)."""

    red: Case
    alone: Case
    because: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to. `fault` is a reason why it is red that belongs to no case."""

    name: str
    cases: Sequence[Case]
    red: Sequence[Case] = ()
    flaky: Sequence[Flaky] = ()
    fault: str = ""
    refuses: bool = True
    """Whether its red cases refuse the change; a part whose turn it merely is reports them."""
    python: str = PYTHON
    """What ran them."""

    @property
    def failed(self) -> bool:
        """Whether anything is wrong with it."""
        return bool(self.fault or self.red or any(one.because for one in self.flaky))

    def command(self, case: Case, seed: int) -> str:
        """Return the command that repeats one case as it ran."""
        return f"{self.python} -Im pytest --randomly-seed={seed} {shlex.quote(case.test)}"


def judge(
    red: Sequence[Case], again: Again, touched: Callable[[str], str]
) -> tuple[list[Case], list[Flaky]]:
    """Run the red cases again, each alone; return those that stay red, and those that are flaky.

    `touched` returns why a case is the change's own ("" if it is not): a flaky case of that kind is red all the same.
    """
    if len(red) > MAX_RED:
        return list(red), []
    stay, flaky = [], []
    for case in red:
        alone = next((one for _ in range(MAX_TRIES) if (one := again(case.test)).passed), None)
        if alone is None:
            stay.append(case)
        else:
            flaky.append(Flaky(case, alone, touched(case.test)))
    return stay, flaky


def table(verdicts: Sequence[Verdict], seed: int) -> str:
    """Return the lines at the end of a run: what is red or flaky, and the slowest, each with the command that repeats it."""
    rows: list[tuple[str, str]] = []
    for verdict in verdicts:
        red = "red" if verdict.refuses else "red, reported"
        rows += [(red, f"{verdict.name}: {verdict.fault}")] if verdict.fault else []
        rows += [(red, verdict.command(case, seed)) for case in verdict.red]
        for one in verdict.flaky:
            why = f"    {red}, though it passed alone: {one.because}" if one.because else ""
            rows.append(("flaky", verdict.command(one.red, seed) + why))
    cases = [(case, verdict) for verdict in verdicts for case in verdict.cases]
    slowest = sorted(cases, key=lambda pair: -pair[0].seconds)[:SLOWEST]
    rows += [(f"{case.seconds:.1f} s", verdict.command(case, seed)) for case, verdict in slowest]
    rows += [
        ("red" if one.failed else "green", f"{one.name}: {len(one.cases)} cases")
        for one in verdicts
    ]
    return "\n".join(f"{word:>13}  {text}" for word, text in rows)
