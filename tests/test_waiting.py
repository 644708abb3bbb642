"""Tests wait for events: a sleep has its row here, and one helper looks again and again for what sends no event."""

import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
SLEEPS = {
    # the helper
    "harness/patience.py": 3,
    # it is sent to the workers of Spark by value, and cannot import the helper there
    "harness/processes/spark_accidents.py": 1,
    # the length of a fault, or of work, is what is asked for
    "proof/faults/test_fair_shares.py": 2,
    "proof/faults_run/worker.py": 1,
    "proof/faults_run/workers.py": 1,
    "xeps/worker/test_levels_e2e.py": 1,
    # what a program does every so often, for as long as it lives
    "harness/processes/suspended.py": 1,
    "proof/faults_run/disks.py": 1,
    "proof/faults_run/publisher.py": 1,
    "proof/faults_run/run.py": 1,
    "proof/fuzz/faces.py": 1,
    # virtual time, which a sleep lets pass
    "engine/test_other_processes.py": 1,
    "faces/test_contract_of_toy_face.py": 2,
    "harness/test_virtual_time.py": 2,
    "proof/simulate/client.py": 2,
    "proof/simulate/network.py": 1,
    "proof/simulate/owner.py": 1,
    "proof/simulate/places.py": 3,
    "proof/simulate/postgres_place.py": 3,
    "proof/simulate/run.py": 4,
    "proof/simulate/test_instance.py": 4,
    "proof/simulate/troubles.py": 1,
    "proof/simulate/world.py": 2,
    "xeps/client/test_pace.py": 2,
    "xeps/worker/test_status.py": 1,
}
"""How many calls of `sleep` each file of the tests and proofs has, by why it may."""


def is_sleep(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(ast.Name("asyncio" | "time"), "sleep")):
            return True
    return False


def is_poll(node: ast.AST) -> bool:
    """Say whether a loop does nothing but sleep and look again."""
    return isinstance(node, ast.While) and any(
        isinstance(one, ast.Expr) and any(map(is_sleep, ast.walk(one))) for one in node.body
    )


def found(matches) -> Counter[str]:
    counts = Counter()
    for path in (*TESTS.rglob("*.py"), *(ROOT / "proof").rglob("*.py")):
        text = path.read_text()
        if ".sleep(" in text:
            name = path.relative_to(ROOT).as_posix().removeprefix("tests/")
            counts[name] = sum(map(matches, ast.walk(ast.parse(text))))
    return +counts


def test_nothing_sleeps_but_what_has_a_reason():
    assert found(is_sleep) == SLEEPS


def test_no_test_polls_by_hand():
    # a simulated client, the two programs that do something at each turn, and what cannot import the helper
    polls = found(is_poll).keys() - {"harness/patience.py"}
    assert polls <= {name for name in SLEEPS if name.startswith("proof/")} | {
        "harness/processes/suspended.py",
        "harness/processes/spark_accidents.py",
    }
