"""A fault that an HTTP request meets is noticed."""

from itertools import islice
from random import Random
from types import SimpleNamespace

import pytest

from proof.fuzz.outcome import FaultError
from proof.fuzz.requests import Served, requests, send_all
from pubqueue.faces.http import HttpHost
from pubqueue.faces.listener import Place

REQUESTS = 1_500


class Fails:
    """A part with a fault."""

    def add_to(self, app):
        async def answer(_request):
            raise KeyError

        app.router.add_route("*", "/{path:.*}", answer)


@pytest.mark.parametrize("logged", ["", "level=error event=request.failed"])
async def test_a_fault_is_noticed(logged):
    async with HttpHost([] if logged else [Fails()]).serving([Place("127.0.0.1", 0)]) as [
        (_, port)
    ]:
        served = Served(SimpleNamespace(log=logged), port)
        with pytest.raises(FaultError, match=logged or "status 500"):
            await send_all(served, islice(requests(Random(7), served), REQUESTS))
