"""The operations as JSON over HTTP: what comes of each request, and what every answer has."""

import asyncio
import base64

import pytest
from harness.batches.facts import ANN, JOBS
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.clients.unfinished import counted
from harness.operators.api_caller import OWN, PASSWORD, RULE
from harness.operators.browser import CHANGE, LOOK
from harness.patience import until
from structlog.testing import capture_logs
from yarl import URL

from pubqueue.engine.observe import Phase
from pubqueue.operations.table import OPERATIONS


async def names(service, *ids):
    await service.do(a_queue(), publishes(*ids))


async def test_the_list_has_every_operation_with_its_method_and_parameters(api):
    answer = await api.get("operations")
    assert answer.status == 200
    found = {one["name"]: one for one in answer.json["operations"]}
    assert list(found) == list(OPERATIONS)
    assert found["items"]["method"] == "GET"
    assert found["purge"]["method"] == "POST"
    assert found["items"]["href"] == "operations/items"
    parameters = {one["name"]: one for one in found["items"]["parameters"]}
    assert parameters["node"]["required"]
    assert {"value": "dead", "label": "Dead items"} in parameters["state"]["choices"]
    assert parameters["state"]["default"] == "all"


async def test_all_but_the_last_byte_of_a_body_counts_for_the_account(service):
    changing = {
        ("POST", f"/api/operations/{name}") for name, one in OPERATIONS.items() if one.changes
    }
    fields = {"Authorization": f"Bearer {CHANGE}", "Content-Type": "application/json"}
    assert await counted(service.place, changing, fields, "changer@queue.example") == changing


async def test_the_list_is_sent_again_only_if_it_has_changed(api):
    answer = await api.get("operations")
    again = await api.get("operations", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    other = await api.get("operations", headers={"If-None-Match": '"other"'})
    assert other.status == 200


async def test_a_read_has_rows_under_the_names_of_their_columns(service, api):
    await names(service, "a", "b")
    answer = await api.get("operations/items?node=jobs")
    assert answer.status == 200
    assert answer.json["note"] == "2 items of jobs."
    assert [row["id"] for row in answer.json["rows"]] == ["a", "b"]
    assert set(answer.json["rows"][0]) == {one.name for one in OPERATIONS["items"].columns}
    assert answer.json["rows"][0]["published"].endswith("Z")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "next" not in answer.headers.get("Link", "")


async def test_every_page_is_found_by_the_link_of_the_one_before(service, api):
    wanted = [f"item {n} & more" for n in range(7)]
    await names(service, *wanted)
    path, found, pages = "operations/items?node=jobs&max=3", [], 0
    while path:
        answer = await api.get(path)
        found += [row["id"] for row in answer.json["rows"]]
        pages += 1
        link = answer.headers.get("Link")
        assert (link is not None) == answer.json["more"]
        path = link and "operations/" + link.partition("<")[2].partition('>; rel="next"')[0]
    assert (found, pages) == (wanted, 3)


async def test_head_has_the_headers_of_get(service, api):
    await names(service, "a")
    for path in ("operations", "openapi.json", "operations/items?node=jobs"):
        got, head = await api.get(path), await api.call("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        for name in ("Content-Type", "Content-Length", "Cache-Control"):
            assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize("form", [False, True])
async def test_a_change_takes_json_or_a_form(service, api, form):
    await names(service, "a", "b", "c")
    path = "operations/cancel"
    value = {"node": "jobs", "item": ["a", "c"]}
    if form:
        answer = await api.call(
            "POST", path, CHANGE, data=[("node", "jobs"), ("item", "a"), ("item", "c")]
        )
    else:
        answer = await api.post(path, value)
    assert (answer.status, answer.json["rows"]) == (
        200,
        [{"count": 2, "in_flight": 0, "missing": []}],
    )
    left = (await api.get("operations/items?node=jobs")).json["rows"]
    assert [row["id"] for row in left] == ["b"]


async def test_a_change_is_in_the_audit_log_with_the_user_and_its_address(service, api):
    await names(service, "a")
    with capture_logs() as logs:
        await api.get("operations/items?node=jobs")
        assert logs == []
        await api.post("operations/purge", {"node": "jobs"})
    (line,) = [one for one in logs if one["event"] == "operation.performed"]
    assert line["by"] == "changer@queue.example/api"
    assert (line["operation"], line["node"], line["remote"]) == ("purge", "jobs", "127.0.0.1")


async def test_a_change_whose_client_hangs_up_is_in_the_audit_log(service, api):
    await names(service, "a")
    body = b"node=jobs"
    head = (
        f"POST /api/operations/purge HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {CHANGE}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with capture_logs() as logs:
        _, writer = await asyncio.open_connection("127.0.0.1", URL(service.place).port)
        writer.write(head.encode() + body)
        writer.transport.close()
        await until(lambda: [one for one in logs if one["event"] == "operation.performed"])
    assert (await api.get("operations/items?node=jobs")).json["rows"] == []


async def test_the_note_of_a_change_without_an_effect_is_a_warning(service, api):
    await names(service, "a")
    answer = await api.post("operations/cancel", {"node": "jobs", "item": ["b"]})
    assert answer.json["warns"]
    assert "Not found" in answer.json["note"]
    assert answer.json["rows"][0]["missing"] == ["b"]


async def test_a_payload_may_be_json_itself(service, api):
    await names(service)
    definition = {"name": "nightly", "cron": "0 3 * * *", "node": "jobs", "priority": 2}
    value = definition | {"payload": {"n": [1, 2]}}
    assert (await api.post("operations/schedule-add", value, RULE)).status == 200
    answer = await api.get("operations/schedule-show?schedule=nightly", RULE)
    assert '{"n":[1,2]}' in str(answer.json["rows"][0])


# --- who may ------------------------------------------------------------------------------------


async def test_a_viewer_reads_and_sees_no_payload(service, api):
    await names(service, "a")
    row = (await api.get("operations/peek?node=jobs&item=a")).json["rows"][0]
    assert (row["id"], row["payload"], row["content"]) == ("a", None, None)
    assert (await api.get("operations/peek?node=jobs&item=a", CHANGE)).json["rows"][0]["payload"]
    for name in ("purge", "pause"):
        answer = await api.post(f"operations/{name}", {"node": "jobs"}, LOOK)
        assert answer.status == 403
        assert answer.detail.startswith("Neither a role")
    assert len((await api.get("operations/items?node=jobs")).json["rows"]) == 1


async def test_an_operator_does_what_the_page_offers_and_nothing_else(service, api):
    await names(service, "a")
    assert (await api.post("operations/pause", {"node": "jobs"})).status == 200
    for name, more in (("delete", {}), ("configure", {"settings": ["pubsub#title=x"]})):
        answer = await api.post(f"operations/{name}", {"node": "jobs"} | more)
        assert answer.status == 403
    assert (await api.get("operations/service", CHANGE)).status == 403
    assert (await api.get("operations/service", RULE)).status == 200
    assert (await api.post("operations/delete", {"node": "jobs"}, RULE)).status == 200


async def test_a_user_without_a_role_has_the_rights_that_lists_of_nodes_give(service, api):
    await names(service, "a")
    assert (await api.get("operations/items?node=jobs", OWN)).status == 403
    affiliation = {"node": "jobs", "jid": "owner@queue.example", "affiliation": "owner"}
    assert (await api.post("operations/affiliate", affiliation, RULE)).status == 200
    row = (await api.get("operations/peek?node=jobs&item=a", OWN)).json["rows"][0]
    assert row["payload"]
    assert (await api.post("operations/purge", {"node": "jobs"}, OWN)).status == 200


async def test_a_password_is_as_good_as_a_token(service, api):
    await names(service)
    basic = base64.b64encode(f"anna:{PASSWORD}".encode()).decode()
    for scheme in ("Basic", "basic"):
        headers = {"Authorization": f"{scheme} {basic}"}
        assert (await api.get("operations/items?node=jobs", None, headers=headers)).status == 200


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic", "Basic !", "Basic YQ==", "Digest x", f"Token {LOOK}"],
)
@pytest.mark.parametrize("path", ["operations", "openapi.json", "operations/purge", "operations/x"])
async def test_without_credentials_nothing_is_looked_at(api, header, path):
    headers = {} if header is None else {"Authorization": header}
    answer = await api.get(path, None, headers=headers)
    assert answer.status == 401
    assert [one.partition(" ")[0] for one in answer.headers.getall("WWW-Authenticate")] == [
        "Basic",
        "Bearer",
    ]
    assert answer.detail


async def test_a_wrong_token_is_logged_without_it_and_slowed_down(api):
    with capture_logs() as logs:
        answers = [await api.get("operations", "wrong token") for _ in range(20)]
    assert [answer.status for answer in answers[:3]] == [401] * 3
    assert answers[-1].status == 429
    assert int(answers[-1].headers["Retry-After"]) > 0
    assert logs
    assert "wrong token" not in str(logs)


async def test_a_cookie_of_the_page_is_no_login_here(service, api):
    async with api.session.post(
        f"{service.place}/ui/login", data={"password": CHANGE}, allow_redirects=False
    ) as answer:
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    api.session.cookie_jar.clear()
    assert (await api.get("operations", None, headers={"Cookie": cookie})).status == 401


async def test_a_removed_user_is_refused_with_the_next_request(service, api):
    assert (await api.get("operations")).status == 200
    service.accounts.adopt(())
    assert (await api.get("operations")).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_another_site_changes_nothing(service, api, headers):
    await names(service, "a")
    answer = await api.post("operations/purge", {"node": "jobs"}, headers=headers)
    assert answer.status == 403
    assert "another site" in answer.detail
    assert len((await api.get("operations/items?node=jobs")).json["rows"]) == 1
    ours = {"Origin": service.place, "Sec-Fetch-Site": "same-origin"}
    assert (await api.post("operations/purge", {"node": "jobs"}, headers=ours)).status == 200


# --- what cannot be -----------------------------------------------------------------------------


async def test_the_method_follows_from_the_operation(api):
    for method, path, allowed in (
        ("GET", "operations/purge", "OPTIONS,POST"),
        ("POST", "operations/items", "GET,HEAD,OPTIONS"),
        ("DELETE", "operations", "GET,HEAD,OPTIONS"),
        ("PUT", "openapi.json", "GET,HEAD,OPTIONS"),
    ):
        answer = await api.call(method, path, CHANGE)
        assert (answer.status, answer.json["type"]) == (
            405,
            "urn:x-pubqueue:problem:method-not-allowed",
        )
        assert ",".join(sorted(answer.headers["Allow"].replace(" ", "").split(","))) == allowed
        options = await api.call("OPTIONS", path, None)
        assert (options.status, options.headers["Allow"].replace(" ", "").count(",")) == (
            204,
            allowed.count(","),
        )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("operations/items", "node: this has to be given"),
        ("operations/items?node=jobs&nod=x", "nod: items knows no such parameter"),
        ("operations/items?node=jobs&node=x", "node: one value"),
        ("operations/items?node=jobs&max=many", "max: a whole number"),
        ("operations/items?node=jobs&state=lost", "state: one of"),
        ("operations/items?node=%00", "node: it has a NUL"),
        ("operations/items?node=%FF", "node: this is not valid Unicode"),
        ("operations/connections?account=@", "account: a JID"),
    ],
)
async def test_a_wrong_parameter_is_named(service, api, path, said):
    await names(service)
    answer = await api.get(path, RULE)
    assert answer.status == 400
    assert said in answer.detail


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "a JSON object"),
        (b'"jobs"', "a JSON object"),
        (b'{"node": {"a": 1}}', "node: a text"),
        (b'{"node": "jobs", "item": [["a"]]}', "item: a text"),
        (b'{"node": "jobs", "item": ["a\\u0000"]}', "item: it has a NUL"),
        (b'{"node": "jobs", "x": 1}', "x: cancel knows no such parameter"),
        (b"", "node: this has to be given"),
        (b"[" * 100_000, "not JSON"),
        (b'{"node": "jobs", "item": [' + b"1," * 20_000 + b"1]}", "up to 10000 values"),
    ],
)
async def test_a_wrong_body_is_refused_in_words(service, api, body, said):
    await names(service, "a")
    headers = {"Content-Type": "application/json"}
    answer = await api.call("POST", "operations/cancel", CHANGE, data=body, headers=headers)
    assert answer.status == 400
    assert said in answer.detail


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\xff=1", "\\udcff: this is not valid Unicode"),
        (b"%FF=1", "\\udcff: this is not valid Unicode"),
        (b"node=jobs&" + b"x" * 300 + b"=1", "x" * 100 + ": cancel knows no such parameter"),
    ],
)
async def test_a_wrong_form_is_refused_in_words(service, api, body, said):
    await names(service, "a")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    with capture_logs() as logs:
        answer = await api.call("POST", "operations/cancel", CHANGE, data=body, headers=headers)
    assert (answer.status, answer.detail, logs) == (400, said, [])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "application/json", "Accept": "text/html"}, 406),
        ({"Content-Type": "application/json", "Accept": "application/json;q=0"}, 406),
        ({"Content-Type": "application/json", "Accept": "text/html, */*;q=0.1"}, 200),
    ],
)
async def test_bodies_and_answers_have_their_types(service, api, headers, status):
    await names(service, "a")
    body = b'{"node": "jobs"}'
    answer = await api.call("POST", "operations/pause", CHANGE, data=body, headers=headers)
    assert answer.status == status


async def test_a_body_that_is_too_large_is_refused(api):
    body = b'{"node": "%s"}' % (b"x" * 300_000)
    headers = {"Content-Type": "application/json"}
    answer = await api.call("POST", "operations/pause", CHANGE, data=body, headers=headers)
    assert (answer.status, answer.json["type"]) == (413, "urn:x-pubqueue:problem:too-large")


async def test_what_is_not_there_is_not_found(api):
    answer = await api.get("operations/itmes")
    assert (answer.status, answer.detail) == (
        404,
        "There is no such operation; did you mean items?",
    )
    assert (await api.get("operations/items?node=nowhere")).status == 404
    assert (await api.get("nothing")).status == 404


async def test_a_refusal_of_the_core_has_its_status_and_its_sentence(service, api):
    await names(service)
    answer = await api.post("operations/create", {"name": "jobs"}, RULE)
    assert (answer.status, answer.json["title"]) == (409, "Conflict")
    assert answer.detail


async def test_a_process_that_does_not_serve_reports_when_to_come_again(service, api):
    service.monitor.at_rest(Phase.WAITING)
    answer = await api.get("operations/items?node=jobs")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "does not serve" in answer.detail
    assert (await api.get("operations")).status == 200
    service.monitor.at_work(service.broker, ())


async def test_a_worker_holds_what_is_shown_and_released(service, api):
    await service.do(a_queue(), joins(ANN, 2), publishes("a"))
    assert JOBS == "jobs"
    rows = (await api.get("operations/workers?node=jobs")).json["rows"]
    assert [(row["jid"], row["items"]) for row in rows] == [("ann@x/1", ["a"])]
    answer = await api.post("operations/release", {"node": "jobs", "item": "a"})
    assert answer.json["rows"] == [{"count": 1}]
