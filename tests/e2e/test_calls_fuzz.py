"""Random calls of gRPC on both stores, as `make fuzz` makes many more of them."""

from random import Random

import pytest
from proof.fuzz.calls import calling, run

CALLS = 400


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_call_meets_a_fault(request, tmp_path, kind):
    store = request.getfixturevalue("postgres").address if kind == "postgres" else ""
    async with calling(tmp_path, Random(7), store) as (service, caller):
        codes = await run(service, caller, CALLS)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"} <= codes.keys()
    assert codes["OK"] > CALLS / 10
