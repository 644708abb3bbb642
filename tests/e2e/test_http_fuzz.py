"""Random HTTP requests at all that a service has, as `make fuzz` sends many more of them."""

from itertools import islice
from random import Random

import pytest
from proof.fuzz.requests import logins, requests, send_all, serving

REQUESTS = 1_500


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_request_meets_a_fault(request, tmp_path, kind):
    store = request.getfixturevalue("postgres").address if kind == "postgres" else ""
    async with serving(tmp_path, store) as served:
        statuses = await send_all(served, islice(requests(Random(7), served), REQUESTS))
        statuses += await send_all(served, logins(served))
    assert {200, 201, 303, 400, 404, 405, 415, 417} <= statuses.keys()
    assert {401, 429} & statuses.keys()
