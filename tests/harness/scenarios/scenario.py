"""Reads wire scenarios: what entities send to the service and what they receive, as the XEPs show it.

A scenario is a text of lines; `#` begins a comment line, and the stanza of a step is on the lines
indented below it. `tests/scenarios/README.md` shows the whole language. A phrase (see `phrases.py`)
is short for steps that other scenarios prove one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.scenarios.phrases import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ScenarioError(ValueError):
    """A line that the language does not know."""


@dataclass(frozen=True, slots=True)
class Step:
    """The base of every step: its line number, and its line."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Send(Step):
    """`who sends:` and a stanza; `to`, `from` and an iq's `id` are filled in if absent."""

    who: str
    xml: str


@dataclass(frozen=True, slots=True)
class Receive(Step):
    """One of `who` receives `xml` next; the receiver is called by the first of `roles`."""

    who: tuple[str, ...]
    xml: str
    roles: tuple[str, ...] = ()
    exactly: bool = False
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Error:
    """A stanza error: condition, type, and the child of `pubsub#errors` that explains it."""

    condition: str
    kind: str
    child: str = ""
    feature: str = ""


@dataclass(frozen=True, slots=True)
class Refused(Step):
    """The last iq of `who` is answered by one of these errors, its own children echoed."""

    who: str
    errors: tuple[Error, ...]


@dataclass(frozen=True, slots=True)
class Nothing(Step):
    """`who`, or any entity, has nothing left to receive; proven by a round trip."""

    who: str = ""


@dataclass(frozen=True, slots=True)
class TakenIn(Step):
    """Everything sent so far has been handled; proven by a round trip."""


@dataclass(frozen=True, slots=True)
class Upset(Step):
    """An event of the service itself: "restart", "kill" or "cut"."""

    what: str


@dataclass(frozen=True, slots=True)
class SessionStep(Step):
    """The stream of `who` ends, or it has one again, without a stanza to the service."""

    who: str
    ends: bool


@dataclass(slots=True)
class Scenario:
    """A scenario as read: its cast, the configuration of the service, its steps."""

    service: str = "queue.localhost"
    config: str = ""
    cast: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)


def read(text: str) -> Scenario:
    """Read a scenario; `ScenarioError` names an invalid line."""
    scenario = Scenario()
    for line, head, block in _blocks(text):
        _read_step(scenario, line, head, block)
    return scenario


def _read_step(scenario: Scenario, line: int, head: str, block: str) -> None:
    for pattern, make in GRAMMAR:
        if found := re.fullmatch(pattern, head):
            made = make(scenario, Step(line, head), found, block)
            if made:
                _known(scenario, made)
                scenario.steps.append(made)
            return
    longer = expand(head)
    if longer is None or block:
        message = f"line {line}: {head!r} is not understood"
        raise ScenarioError(message)
    for _, inner, inner_block in _blocks(longer):
        _read_step(scenario, line, inner, inner_block)


def _known(scenario: Scenario, step: Step) -> None:
    whos = getattr(step, "who", ())
    roles = {role for it in scenario.steps if isinstance(it, Receive) for role in it.roles}
    for who in (whos,) if isinstance(whos, str) else whos:
        if who and who not in scenario.cast and who not in roles:
            message = f"line {step.line}: nobody said who {who} is"
            raise ScenarioError(message)


def _blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each step as its line number, its line, and the text below or after its colon."""
    head, block, start = "", [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0].isspace() and head:
            block.append(line)
            continue
        if head:
            yield start, head, "\n".join(block)
        head, colon, behind = line.strip().partition(": <")
        head, block, start = head.removesuffix(":"), [f"<{behind}"] if colon else [], number
    if head:
        yield start, head, "\n".join(block)


if TYPE_CHECKING:
    Maker = Callable[[Scenario, Step, re.Match[str], str], Step | None]


def _service(scenario: Scenario, _step: Step, found: re.Match[str], _block: str) -> None:
    scenario.service = found[1]


def _config(scenario: Scenario, _step: Step, _found: re.Match[str], block: str) -> None:
    scenario.config += block + "\n"


def _cast(scenario: Scenario, _step: Step, found: re.Match[str], _block: str) -> None:
    scenario.cast[found[1]] = found[2]


def _send(_: Scenario, step: Step, found: re.Match[str], block: str) -> Send:
    return Send(step.line, step.text, found[1], block)


def _receive(_: Scenario, step: Step, found: re.Match[str], block: str) -> Receive:
    named = found.groupdict()
    return Receive(
        step.line,
        step.text,
        tuple(named["who"].split(", ")),
        block,
        roles=tuple(named["roles"].split(", ")) if named.get("roles") else (),
        exactly=bool(named.get("exactly")),
        after=float(named.get("after") or 0),
    )


def _result(_: Scenario, step: Step, found: re.Match[str], _block: str) -> Receive:
    return Receive(step.line, step.text, (found[1],), "<iq type='result'/>")


def _refused(_: Scenario, step: Step, found: re.Match[str], _block: str) -> Refused:
    errors = [Error(*re.fullmatch(ERROR, one).groups(default="")) for one in found[2].split(" or ")]
    return Refused(step.line, step.text, found[1], tuple(errors))


def _nothing(_: Scenario, step: Step, found: re.Match[str], _block: str) -> Nothing:
    return Nothing(step.line, step.text, found.groupdict().get("who") or "")


def _taken_in(_: Scenario, step: Step, _found: re.Match[str], _block: str) -> TakenIn:
    return TakenIn(step.line, step.text)


def _session(_: Scenario, step: Step, found: re.Match[str], _block: str) -> SessionStep:
    return SessionStep(step.line, step.text, found[1], ends=found[2] == "out")


def _upset(what: str) -> Maker:
    return lambda _, step, _found, _block: Upset(step.line, step.text, what)


WHO: Final = r"([a-z]\w*)"
ERROR: Final = r"([a-z-]+) \((\w+)\)(?: with ([a-z-]+)(?: ((?!or )[a-z-]+))?)?"
GRAMMAR: Final[list[tuple[str, Maker]]] = [
    (r"the service has taken it in", _taken_in),
    (r"the service is configured with", _config),
    (r"the service is killed and started again", _upset("kill")),
    (r"the service restarts", _upset("restart")),
    (r"the connection is lost", _upset("cut")),
    (r"the service is (\S+)", _service),
    (rf"{WHO} is (\S+[@.]\S+)", _cast),
    (rf"{WHO} sends", _send),
    (rf"{WHO} logs (in|out)", _session),
    (rf"(?P<who>{WHO}) receives(?P<exactly> exactly)?", _receive),
    (rf"(?P<who>{WHO}) receives after (?P<after>[\d.]+) s or more", _receive),
    (r"one of (?P<who>\w+(?:, \w+)+) \(as (?P<roles>\w+(?:, \w+)+)\) receives", _receive),
    (rf"{WHO} gets a result", _result),
    (rf"{WHO} is refused ({ERROR}(?: or {ERROR})*)", _refused),
    (rf"(?P<who>{WHO}) receives nothing", _nothing),
    (r"nobody receives anything", _nothing),
]
