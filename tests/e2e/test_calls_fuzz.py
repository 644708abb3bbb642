"""Random calls of gRPC on both stores, as `make fuzz` makes many more of them; and a fault is noticed."""

from random import Random
from types import SimpleNamespace

import pytest
from grpc import StatusCode
from proof.fuzz.calls import calling, run
from proof.fuzz.outcome import FaultError

CALLS = 400


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_call_meets_a_fault(request, tmp_path, kind):
    store = request.getfixturevalue("postgres").address if kind == "postgres" else ""
    async with calling(tmp_path, Random(7), store) as (service, caller):
        codes = await run(service, caller, CALLS)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"} <= codes.keys()
    assert codes["OK"] > CALLS / 10


@pytest.mark.parametrize(
    ("code", "log"), [("INTERNAL", ""), ("OK", "level=error event=call.failed")]
)
async def test_a_fault_is_noticed(code, log):
    class Caller:
        async def call(self):
            return "Publish: topic", StatusCode[code]

    with pytest.raises(FaultError, match=r"(?s)Publish: topic"):
        await run(SimpleNamespace(log=log), Caller(), 1)
