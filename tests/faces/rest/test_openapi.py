"""The OpenAPI documents of the profiles: valid, complete, and kept to by every answer."""

import pytest
from harness.http.judged import check_document
from proof.fuzz.openapi import judged, the_document

from pubqueue.faces.rest.hornetq.routes import ROUTES as OF_HORNETQ
from pubqueue.faces.rest.star.routes import ROUTES

PROFILES = {"rest": ROUTES, "hornetq": OF_HORNETQ}


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_document_is_valid_and_names_every_route(rest, profile):  # W18
    document = await the_document(rest, profile)
    check_document(document)
    named = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert named == {(route.method, route.path) for route in PROFILES[profile]}
    assert document["servers"] == [{"url": rest.root.removesuffix("rest") + profile}]
    assert len(
        {
            one["operationId"]
            for item in document["paths"].values()
            for one in item.values()
            if isinstance(one, dict)
        }
    ) == len(named)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("known", [False, True])
async def test_every_answer_is_one_that_the_document_names(known, profile, pytestconfig):  # W18
    number = pytestconfig.getoption("randomly_seed", 0)
    number = number if isinstance(number, int) else 0
    statuses = await judged(number, examples=4, known=known, profile=profile)
    assert statuses.total() >= len(PROFILES[profile])
    assert {200, 404} & statuses.keys()
    assert not {401, 429, 500} & statuses.keys()
