"""A fault that a call of gRPC meets is noticed."""

from types import SimpleNamespace

import pytest
from grpc import StatusCode

from proof.fuzz.calls import run
from proof.fuzz.outcome import FaultError


@pytest.mark.parametrize(
    ("code", "log"), [("INTERNAL", ""), ("OK", "level=error event=call.failed")]
)
async def test_a_fault_is_noticed(code, log):
    class Caller:
        async def call(self):
            return "Publish: topic", StatusCode[code]

    with pytest.raises(FaultError, match=r"(?s)Publish: topic"):
        await run(SimpleNamespace(log=log), Caller(), 1)
