"""A message is taken and acknowledged, by links alone."""

import asyncio

import pytest
from faces.rest.clients import follow, links
from faces.rest.star.steps import post, settle, take
from harness.patience import until


async def test_a_message_is_taken_and_acknowledged(rest):  # R17, R18, R35
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    found = links(message)
    assert found.keys() == {"acknowledgement", "self", "generator", "hold", "signal"}
    assert found["acknowledgement"] == message.headers["msg-acknowledgement"]
    assert found["generator"] == f"{rest.root}/queues/jobs"
    assert message.headers["ETag"] == f'"{found["acknowledgement"].rpartition("=")[2]}"'
    assert message.headers["Message-Deadline"].endswith("Z")
    assert (await settle(bee, message)).status_code == 204
    assert (await take(bee)).status_code == 503
    assert (await etl.get("/queues/jobs")).json()["counts"]["messages"] == 0


@pytest.mark.parametrize("spelling", [";etag={}", "%3Betag={}", "/{}"])
async def test_an_acknowledgement_is_spelt_in_three_ways(rest, spelling):  # R17
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    where, _, token = links(await take(bee))["acknowledgement"].partition(";etag=")
    done = await bee.post(where + spelling.format(token), data={"acknowledgement": "true"})
    assert done.status_code == 204


async def test_a_repeated_verdict_is_405_and_the_other_one_412(rest):  # R21
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    assert (await settle(bee, message)).status_code == 204
    again = await settle(bee, message)
    assert (again.status_code, again.headers["Allow"]) == (405, "OPTIONS")
    assert (again.json()["title"], again.json()["detail"]) == (
        "Already done",
        "already acknowledged",
    )
    assert (await settle(bee, message, "acknowledge=false")).status_code == 412
    assert (await settle(bee, message, "touch=5")).status_code == 404


async def test_a_message_that_is_not_acknowledged_comes_again_under_another_tag(rest):  # R19, R20
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    first = await take(bee)
    assert (await settle(bee, first, "acknowledge=false")).status_code == 204
    second = await take(bee, Accept_Wait="5")
    assert second.headers["Message-Id"] == first.headers["Message-Id"]
    assert int(second.headers["ETag"].strip('"')) > int(first.headers["ETag"].strip('"'))
    assert (await settle(bee, first)).status_code == 412
    assert (await settle(bee, second)).status_code == 204


async def test_if_match_has_to_name_the_lock(rest):  # R24
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    assert (await settle(bee, message, If_Match='"77"')).status_code == 412
    assert (await settle(bee, message, If_Match=message.headers["ETag"])).status_code == 204


@pytest.mark.parametrize(
    "verdict",
    [
        "",
        "acknowledge=maybe",
        "acknowledge=true&acknowledge=true",
        "acknowledge=true&acknowledgement=false",
        "touch=5&acknowledge=true",
        "touch=-1",
        "acknowledge=false&outcome=sad",
        "acknowledge=false&outcom=reject",
        "acknowledge=false&delay=1&delay=2",
        "acknowledge=true&outcome=reject",
        "touch=5&reason=late",
        "acknowledge=false&delay=soon",
        "acknowledge=%FF",
    ],
)
async def test_a_form_without_one_clear_verdict_changes_nothing(rest, verdict):  # R22
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    assert (await settle(bee, message, verdict)).status_code == 400
    assert (await settle(bee, message)).status_code == 204


async def test_the_media_type_of_a_verdict_is_that_of_forms(rest):  # R22
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    wrong = await settle(bee, message, Content_Type="application/json")
    assert wrong.status_code == 415


async def test_an_acknowledgement_is_valid_for_its_client_only(rest):  # W07
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    await post(etl)
    message = await take(bee)
    assert (await settle(ann, message)).status_code == 403
    assert (await settle(bee, message)).status_code == 204


async def test_a_poll_waits_for_a_message(rest):  # R26
    etl, bee = await rest.as_(), await rest.as_("bee")
    waiting = asyncio.create_task(take(bee, Prefer="respond-async, wait=30"))
    await until(lambda: rest.face.waiting.count)
    await post(etl, b"late")
    message = await waiting
    assert (message.status_code, message.content) == (200, b"late")
    assert message.headers["Preference-Applied"] == "wait=30"


@pytest.mark.parametrize("name", ["Accept-Wait", "X-RS-Wait", "Prefer"])
async def test_a_wait_is_a_number_of_seconds(rest, name):  # R26
    bee = await rest.as_("bee")
    to = await follow(bee, "/queues/jobs", "poller")
    value = "wait={}" if name == "Prefer" else "{}"
    nothing = 204 if name == "Prefer" else 503
    assert (await bee.post(to, headers={name: value.format("0.01")})).status_code == nothing
    assert (await bee.post(to, headers={name: value.format("soon")})).status_code == 400


async def test_a_poller_takes_nothing_by_get(rest):  # R16
    bee = await rest.as_("bee")
    answer = await bee.get(await follow(bee, "/queues/jobs", "poller"))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, POST")
