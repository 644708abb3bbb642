"""The set `long`: what proves more than each commit needs, in parts, with the paths that force each.

A case belongs to a part if its id begins with one of the part's beginnings, in which `*` is anything. It is then left out of `make test`, unless the part
looks again at what each commit has to pass: deeper, or with the newest Python. CI runs the parts that the paths of the change force, and one more by
rotation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.gate.cases import Case

DAILY_SECONDS: Final = 840
"""What the cases of each commit take on two quiet cores, by three processes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of `long`: its cases by the beginnings of their ids, and the paths a change of which forces it."""

    name: str
    proves: str
    seconds: int
    """What its run takes on two quiet cores, by three processes."""
    cases: tuple[str, ...]
    forced_by: tuple[str, ...]
    """Empty for a part of hours, which is run by hand only."""
    is_deeper: bool = False
    """Whether its cases are those of each commit, with ten times as many examples (`harness.depth`)."""
    is_newest: bool = False
    """Whether its cases are those of each commit, with the newest Python (`tools/newest_python`)."""
    limit: int = 1500
    """Seconds that each of its cases may take; those of each day have the limit of pyproject.toml."""

    @property
    def kind(self) -> tuple[bool, bool]:
        """How its cases are run; parts of one kind are run together."""
        return self.is_deeper, self.is_newest

    @property
    def looks_again(self) -> bool:
        """Whether its cases are those of each commit."""
        return self.is_deeper or self.is_newest

    def has(self, case: str) -> bool:
        """Return whether a case belongs to it, by its id."""
        if self.is_newest and part_of(case):
            return False
        return any(beginning.match(case) for beginning in _patterns(self.cases))

    def files(self, root: Path) -> list[str]:
        """Return the files and folders that pytest has to read for it, below the root."""
        begun = {case.partition("::")[0] for case in self.cases}
        found = (
            path
            for one in begun
            for path in root.glob(one if "." in one else f"{one.rstrip('/')}*")
        )
        return sorted(str(path.relative_to(root)) for path in found)


@cache
def _patterns(cases: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(re.escape(case).replace(r"\*", ".*")) for case in cases)


# fmt: off
PARTS: Final = (
    Part(
        "packaging", "the Debian package, wheels, the container image and the pages of operations, on copies of this machine",
        seconds=400,
        cases=("proof/packaging/", "tests/e2e/test_base_install.py"),
        forced_by=(
            "packaging/", "pyproject.toml", "requirements.lock", "tools/deb", "tools/image", "tools/service_lock", "proof/packaging/",
            "docs/operations/", "docs/how-to/install.md", "docs/how-to/attach.md", "tests/harness/machines/",
        ),
    ),
    Part(
        "demo", "the demo with its accidents, the rehearsal, and the examples",
        seconds=250,
        cases=("proof/demo/",),
        forced_by=("demo/", "examples/", "docs/tutorial/", "docs/operations/rehearsal", "tests/demo/", "proof/demo/"),
    ),
    Part(
        "instances", "several instances on one store, killed and under load; crowds at every fault point",
        seconds=170,
        cases=("proof/faults_run/", "proof/kills/"),
        forced_by=(
            *(
                f"component/pubqueue/engine/{name}"
                for name in ("batch", "broker", "fan_out", "forwarding", "outbox", "re", "sending", "silent_workers")
            ),
            "proof/faults_run/", "proof/kills/", "proof/judge/history.py",
        ),
    ),
    Part(
        "faults", "disks that fill, databases that are lost, cut or refuse, clocks that are set, clients that close early",
        seconds=165,
        cases=("proof/faults/", "tests/faults/test_cut_database.py::test_cut", "tests/faults/test_cut_database.py::TestKilled",
               "tests/faults/test_cut_database.py::test_a_commit"),
        forced_by=("component/pubqueue/stores/postgres/", "component/pubqueue/wiring/", "component/pubqueue/faces/listener/", "proof/faults/"),
    ),
    Part(
        "stores", "power lost at every write, standbys, backups and copies killed at every step",
        seconds=200,
        cases=(
            "proof/stores/", "tests/stores/copying/test_copy.py::test_a_copy_may_be_killed_between",
            "tests/stores/copying/test_backups.py::test_killed_at_any_moment",
        ),
        forced_by=("component/pubqueue/stores/", "tests/harness/databases/", "tests/stores/", "proof/stores/"),
    ),
    Part(
        "simulator", "defects planted in the simulated service are found",
        seconds=60,
        cases=("proof/simulate/",),
        forced_by=("proof/simulate/", "proof/judge/"),
    ),
    Part(
        "judge", "defects planted in histories are found, and none in those that are right",
        seconds=15,
        cases=("proof/judge/",),
        forced_by=("proof/judge/",),
    ),
    Part(
        "disk", "a disk that forgets what was not synced, under the store, the file of pending messages and curb's journal",
        seconds=60,
        cases=("proof/disk/",),
        forced_by=(
            "component/pubqueue/stores/sqlite/", "component/pubqueue/curb/", "xeps/pubqueue_xeps/xep_qos/pending_file.py", "proof/disk/",
            "proof/judge/",
        ),
    ),
    Part(
        "control", "the same judge and load against RabbitMQ, which has to pass, and NATS, whose loss has to be found",
        seconds=150,
        cases=("proof/control/",),
        forced_by=("proof/control/", "proof/disk/", "proof/judge/"),
    ),
    Part(
        "fuzz", "what the random requests, streams and stanzas are judged by notices a fault",
        seconds=60,
        cases=("proof/fuzz/",),
        forced_by=("proof/fuzz/",),
    ),
    Part(
        "kills", "services killed at every point, over each face; Google's own system tests",
        seconds=300,
        cases=(
            *(
                f"tests/faces/{face}/test_kills.py::*::test_killed_{when}"
                for face in ("xmpp", "stomp/served", "rest/served", "grpc")
                for when in ("at_each_step", "at_any_moment", "the_other_instance", "between_commit")
            ),
            "tests/faces/stomp/served/test_kills.py::test_", "tests/faces/rest/push/test_ended.py",
            "tests/faces/grpc/test_killed_in_long_work.py", "tests/faces/grpc/test_google_system.py",
            "tests/xeps/xep_qos/test_kills.py", "proof/one_queue/", "proof/outbox/",
        ),
        forced_by=(
            "component/pubqueue/faces/grpc/", "component/pubqueue/faces/rest/", "component/pubqueue/faces/stomp/",
            "tests/faces/kill_contract.py", "xeps/pubqueue_xeps/outbox/", "proof/outbox/", "proof/one_queue/",
        ),
    ),
    Part(
        "servers", "every scenario behind Prosody and ejabberd, and servers that federate",
        seconds=125,
        cases=("tests/scenarios/test_on_servers.py", "tests/e2e/test_federation.py", "tests/e2e/test_qos_federation.py"),
        forced_by=("component/pubqueue/faces/xmpp/", "tests/scenarios/", "tests/harness/scenarios/"),
    ),
    Part(
        "ejabberd", "what each commit shows behind Prosody, behind ejabberd; and Libervia",
        seconds=120,
        cases=(
            *(
                f"tests/{file}.py::*[*jabberd" for file in (
                    "cli/test_service", "cli/test_worker", "e2e/test_clients_aioxmpp", "e2e/test_clients_pubsub",
                    "e2e/test_metrics", "e2e/test_operations", "e2e/test_publisher", "e2e/test_pubsub_client",
                    "e2e/test_qos_service", "xeps/test_groups_e2e", "xeps/test_reading_e2e",
                    "xeps/worker/test_handlers_e2e", "xeps/worker/test_levels_e2e", "xeps/worker/test_worker_e2e",
                )
            ),
            "tests/e2e/test_clients_microblog.py",
        ),
        forced_by=("component/pubqueue/faces/xmpp/", "xeps/pubqueue_xeps/", "tests/harness/servers/"),
    ),
    Part(
        "bench", "what is measured, and beside what: each measurement is made once, and small",
        seconds=100,
        cases=("tests/e2e/test_bench.py",),
        forced_by=("bench/", "tests/e2e/test_bench.py"),
    ),
    Part(
        "gate", "runs of a small project, with tests that hang, are flaky or red",
        seconds=30,
        cases=("tests/harness/test_gate.py::test_a_run_names_what_hangs", "tests/harness/test_gate.py::test_a_part_is_run_with_the_newest"),
        forced_by=("tests/harness/gate/", "tests/harness/test_gate.py", "tools/gate", "conftest.py", "pyproject.toml", "requirements.lock"),
    ),
    Part(
        "site", "the documentation is built, and has every command and import",
        seconds=30,
        cases=("tests/test_documentation.py::test_the_site",),
        forced_by=("docs/", "mkdocs.yml", "tools/", "README.md", "CONTRIBUTING.md", "component/pubqueue/cli/"),
    ),
    Part(
        "postgres", "every scenario on PostgreSQL",
        seconds=55,
        cases=("tests/scenarios/test_scenarios.py::test_scenario[postgresql",),
        forced_by=("component/pubqueue/stores/", "tests/scenarios/", "tests/harness/scenarios/"),
    ),
    Part(
        "spark", "reads, writes and streams in a session of Spark",
        seconds=280,
        cases=("tests/spark/test_spark_", "tests/spark/test_example.py"),
        forced_by=("spark/", "examples/spark_job.py", "xeps/pubqueue_xeps/wire/", "xeps/pubqueue_xeps/client/", "tests/spark/"),
    ),
    Part(
        "clusters", "jobs on clusters of Spark, killed",
        seconds=340,
        cases=("proof/spark_cluster/",),
        forced_by=("spark/", "proof/spark_cluster/"),
    ),
    Part(
        "millions", "jobs of a million and of five million rows on two cores, with a service so slow that each half of a commit outlasts every timeout",
        seconds=11500,
        cases=("proof/millions/",),
        forced_by=(),
        limit=4 * 3600,
    ),
    Part(
        "draws", "ten times the examples of the state machines, the readers, the time zones and the floods",
        seconds=300,
        cases=(
            *(
                f"tests/engine/test_{name}.py" for name in (
                    "dead_letter_topics", "feeding_machine", "machines_of_two", "several_subscriptions", "strangers",
                    "timetable_of_all_zones", "together", "transaction_machine",
                )
            ),
            "tests/faces/xmpp/test_contract.py", "tests/faces/xmpp/test_face.py",
            *(f"tests/faces/xmpp/stream/test_{name}.py" for name in ("reader", "single", "single_messages")),
            *(f"tests/faces/{face}/test_contract.py" for face in ("stomp", "rest", "grpc", "grpc/json")),
            "tests/faces/test_contract_of_toy_face.py",
        ),
        forced_by=("component/pubqueue/rules/schedules.py", "component/pubqueue/faces/xmpp/stream/", "component/pubqueue/faces/xmpp/parse/"),
        is_deeper=True,
    ),
    Part(
        "browser", "the page in Chromium, in all sizes and both themes",
        seconds=155,
        cases=("tests/monitor/page/test_browser.py", "tests/monitor/page/test_managing.py::test_the_pages_fit", "tests/e2e/test_page.py"),
        forced_by=("component/pubqueue/monitor/", "tests/monitor/page/"),
    ),
    Part(
        "python", "the newest Python: rules, engine, stores, the wire on SQLite, faces and the client library",
        seconds=600,
        cases=(
            *(f"tests/{room}/" for room in ("accounts", "config", "engine", "model", "operations", "rules", "testing")),
            *(f"tests/faces/{room}/" for room in ("http", "listener", "stomp", "xmpp")),
            *(f"tests/faces/rest/{room}" for room in ("hornetq/", "served/", "star/", "wire/", "test_exchange", "test_face", "test_items")),
            *(f"tests/faces/grpc/{room}" for room in ("json/", "test_s", "test_t", "test_wire")),
            *(f"tests/stores/{room}/" for room in ("copying", "sqlite")),
            *(f"tests/xeps/{room}/" for room in ("client", "publisher", "wire", "worker", "xep_0254", "xep_qos")),
            "tests/scenarios/test_scenarios.py::test_scenario[sqlite",
        ),
        forced_by=("pyproject.toml", "requirements.lock", "tools/newest_python", "tools/setup"),
        is_newest=True,
    ),
)
# fmt: on

BY_NAME: Final = {part.name: part for part in PARTS}
TURNS: Final = tuple(part.name for part in PARTS if part.forced_by)
"""The parts in the order of their turns; those of hours have none."""


@cache
def part_of(case: str) -> str:
    """Return the part that a case is left to, "" if each commit has to pass it."""
    left = (part for part in PARTS if not part.looks_again)
    return next((part.name for part in left if part.has(case)), "")


def forced(paths: Iterable[str]) -> list[str]:
    """Return the parts that a change of these paths forces, in the order of the table."""
    changed = list(paths)
    return [part.name for part in PARTS if any(path.startswith(part.forced_by) for path in changed)]


def turn(number: int, already: Sequence[str]) -> str:
    """Return the part whose turn it is at the commit of this number; "" if it runs already."""
    name = TURNS[number % len(TURNS)]
    return "" if name in already else name


def shares(cases: Iterable[Case]) -> dict[str, float]:
    """Return the seconds that the cases of each part took, for a run of several; cases of each commit are in no share."""
    seconds: dict[str, float] = {}
    for case in cases:
        if part := part_of(case.test):
            seconds[part] = seconds.get(part, 0) + case.seconds
    return seconds


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """Return these parts from the one whose turn it is at the commit of this number, so that another one is last each time."""
    return sorted(names, key=lambda name: (TURNS.index(name) - number) % len(TURNS))


def fitting(names: Sequence[str], seconds: float, pace: float) -> list[str]:
    """Return those of the parts, in their order, that end within the time on a machine that takes `pace` times what a quiet one takes."""
    chosen = []
    for name in names:
        takes = BY_NAME[name].seconds * pace
        if takes <= seconds:
            chosen.append(name)
            seconds -= takes
    return chosen


def described() -> str:
    """Return the table for people: each part, its seconds on two quiet cores, and what forces it."""
    return "\n".join(
        f"{part.name}, {part.seconds} s: {part.proves}\n    forced by {', '.join(part.forced_by) or 'nothing: it takes hours'}"
        for part in PARTS
    )
