"""The OpenAPI document of the operations: valid, complete, and kept to by every answer."""

import asyncio
from functools import partial

from harness.batches.queue_requests import a_queue, publishes
from harness.http.judged import check_document, judge
from harness.operators.api_caller import RULE

from pubqueue.operations.table import OPERATIONS


async def test_the_document_is_valid_and_names_every_operation(api):
    answer = await api.get("openapi.json")
    check_document(answer.json)
    paths = answer.json["paths"]
    for one in OPERATIONS.values():
        method = "post" if one.changes else "get"
        assert list(paths[f"/operations/{one.name}"]) == [method]
        assert paths[f"/operations/{one.name}"][method]["summary"] == one.label
    assert list(paths["/publish"]) == ["post"]
    assert len(paths) == len(OPERATIONS) + 3


async def test_every_answer_is_one_that_the_document_names(service, api, pytestconfig):
    await service.do(a_queue(), publishes("a", "b"))
    document = (await api.get("openapi.json")).json
    headers = {"Authorization": f"Bearer {RULE}"}
    number = pytestconfig.getoption("randomly_seed", 0)
    number = number if isinstance(number, int) else 0
    judging = partial(judge, document, f"{service.place}/api", headers, number=number, examples=3)
    statuses = await asyncio.to_thread(judging)
    assert statuses.total() >= len(OPERATIONS)
    assert {200, 400, 404} <= statuses.keys()
    assert not {401, 403, 429} & statuses.keys()
