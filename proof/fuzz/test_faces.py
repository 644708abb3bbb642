"""A run over each face, as `make fuzz` makes much longer ones; and what the oracle is there to notice is noticed."""

import pytest

from proof.fuzz import house
from proof.fuzz.faces import CURB, FACES, grown, run
from proof.fuzz.outcome import FaultError
from pubqueue.engine.admission import Admission
from pubqueue.monitor.api.service import Callers

INPUTS = 400


@pytest.mark.parametrize("face", [*FACES, CURB])
async def test_no_input_meets_a_fault(face):
    await run(face, INPUTS, seed=7)


async def test_a_fault_is_noticed(monkeypatch):
    def caller(*_args):
        raise ZeroDivisionError

    monkeypatch.setattr(Callers, "caller", caller)
    with pytest.raises(FaultError, match=r"(?s)ZeroDivisionError.*/api/operations"):
        await run("operations", INPUTS, seed=7)


async def test_what_is_left_over_is_noticed(monkeypatch):
    done = Admission.done

    def forgets(self, load):
        done(self, load)
        self.count += 1

    monkeypatch.setattr(Admission, "done", forgets)
    with pytest.raises(FaultError, match="requests are left"):
        await run("stomp", INPUTS, seed=7)


async def test_an_item_that_is_changed_is_noticed(monkeypatch):
    get = house.OverStomp.get

    async def changed(self):
        return (await get(self)).replace(b"item 6", b"item 7")

    monkeypatch.setattr(house.OverStomp, "get", changed)
    with pytest.raises(FaultError, match="the honest client published"):
        await run("stomp", INPUTS, seed=7)


def test_memory_is_compared_once_caches_are_full():
    assert grown([1.0, 90.0, 100.0, 101.0, 102.0]) == (100.0, 2.0)
    assert grown([7.0]) == (7.0, 0.0)
