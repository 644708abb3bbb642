"""Two components on one store, behind ejabberd, which gives every stanza to either of them. One is killed in
the middle, again and again: nothing is lost, nothing is done twice, and no two hold an item at a time."""

import pytest
from faults_run.plan import Fault, Plan
from faults_run.run import Run

PLAN = Plan(
    items=2000,
    seed=1,
    workers=4,
    lock_timeout=20,
    instances=2,
    kinds=(Fault.COMPONENT, Fault.COMPONENT_RESTART, Fault.COMPONENT),
)


@pytest.mark.e2e
@pytest.mark.covers("Q-056", on=["ejabberd"])
async def test_two_instances_under_load_lose_nothing_and_give_nothing_twice(tmp_path):
    outcome = await Run(PLAN, "ejabberd", tmp_path, lambda _done, _what: None).run(patience=400)
    assert outcome.good, outcome
    assert set(outcome.faults) == {Fault.COMPONENT, Fault.COMPONENT_RESTART}
    # No worker died, and locks outlast their work: whoever got an item was the only one to do it.
    assert {item for item, times in outcome.notes.results.items() if times > 1} == set()
    assert outcome.notes.twice == 0
