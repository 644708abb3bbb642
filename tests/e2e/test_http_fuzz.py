"""Random HTTP requests at all that a service has, as `make fuzz` sends many more of them; and a fault is noticed."""

from itertools import islice
from random import Random
from types import SimpleNamespace

import pytest
from proof.fuzz.outcome import FaultError
from proof.fuzz.requests import Served, logins, requests, send_all, serving

from pubqueue.faces.http import HttpHost
from pubqueue.faces.listener import Place

REQUESTS = 1_500


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_request_meets_a_fault(request, tmp_path, kind):
    store = request.getfixturevalue("postgres").address if kind == "postgres" else ""
    async with serving(tmp_path, store) as served:
        statuses = await send_all(served, islice(requests(Random(7), served), REQUESTS))
        statuses += await send_all(served, logins(served))
    assert {200, 201, 303, 400, 404, 405, 415, 417} <= statuses.keys()
    assert {401, 429} & statuses.keys()


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
