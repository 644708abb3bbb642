"""The state machines with two instances on one store, which run batches in turns from their own caches. And on two
stores at once, which both have to decide, deliver and store the same.
"""

import pytest
from engine.test_machine import Queue
from engine.test_transaction_machine import InSlices, Transactions
from harness.batches.both_shells import BothShells
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell, TwoShells, on_memory
from harness.depth import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

EXPLORING = settings.get_current_profile_name() == "explore"
MACHINES = [Queue, Transactions, InSlices]


def of_two(machine, make):
    """Return the machine, whose batches two instances run."""

    class OfTwo(machine):
        of_two = True

        def make_shell(self, path):
            return make(path)

        @initialize(turns=st.lists(st.integers(0, 1), min_size=5, max_size=5).map(tuple))
        def take_turns(self, turns):
            self.shell.take_turns(turns)

    return OfTwo


def play(machine, daily, steps):
    more = 10 if EXPLORING else 1
    how = settings(max_examples=examples(daily) * more, stateful_step_count=steps * more)
    run_state_machine_as_test(machine, settings=how)


def test_in_memory():
    play(of_two(Queue, lambda _: on_memory()), 3, 40)


@pytest.mark.parametrize("machine", MACHINES)
def test_on_sqlite(machine):
    play(of_two(machine, lambda path: TwoShells(lambda: Shell(path))), 3, 40)


@pytest.mark.parametrize("machine", MACHINES)
def test_on_postgres(machine, running_postgres):
    def make(_path):
        running_postgres.wipe()
        return TwoShells(lambda: PostgresShell(running_postgres.address))

    play(of_two(machine, make), 3, 30)


@pytest.mark.parametrize("machine", MACHINES)
def test_on_sqlite_and_postgres_alike(machine, running_postgres):
    class OnBoth(machine):
        def make_shell(self, path):
            running_postgres.wipe()
            return BothShells(Shell(path), PostgresShell(running_postgres.address))

    play(OnBoth, 3, 30)
