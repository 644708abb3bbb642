"""`pubqueue serve` with REST: what is confirmed is kept, and links hold over a restart."""

import asyncio
import re
import ssl

import httpx
from faces.rest.clients import follow, links
from faces.rest.hornetq.steps import consumer, create, msg
from faces.rest.served.service import SERVED, RestService, client_at
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.tls import certify
from harness.starts import warm_start


async def test_it_serves_on_an_address_of_its_own_and_keeps_its_word_over_a_kill(
    tmp_path,
):  # W01, W02
    async with RestService(tmp_path) as service:
        port = service.address[1]
        async with service.client() as etl, service.client("bee") as bee:
            posted = await etl.post(
                await follow(etl, "/queues/jobs", "post-message"), content=b"\0\r\n"
            )
            assert posted.status_code == 201
            message = await bee.post(await follow(bee, "/queues/jobs", "consumer"))
            assert message.content == b"\0\r\n"
        await service.kill()
        service.path.write_text(service.path.read_text().replace("127.0.0.1:0", f"{port}"))
        await service.start()
        async with service.client("bee") as bee:
            where = links(message)["acknowledgement"]
            assert (await bee.post(where, data={"acknowledge": "true"})).status_code == 204
            await service.kill()
            await service.start()
            assert (await bee.post(where, data={"acknowledge": "true"})).status_code == 405


async def test_it_may_be_on_the_server_of_the_page(tmp_path):
    top = 'http = "127.0.0.1:0"'
    async with RestService(tmp_path, SERVED, top=top) as service:
        assert "rest.listening" not in service.log
        host, port = re.findall(r"http\.listening.*?host=(\S+) port=(\d+)", service.log)[-1]
        async with client_at(f"http://{host}:{port}/rest") as etl:
            assert (await etl.get("/queues/jobs")).status_code == 200
            assert (await etl.get(f"http://{host}:{port}/healthz")).text == "alive\n"


async def test_a_service_that_stops_answers_waiting_requests(tmp_path):  # W21
    top = 'http = "127.0.0.2:0"'  # not that of REST
    async with RestService(tmp_path, top=top) as service, service.client("bee") as bee:
        host, port = re.findall(r"http\.listening.*?host=(\S+) port=(\d+)", service.log)[-1]

        async def waits():
            text = (await bee.get(f"http://{host}:{port}/metrics")).text
            return "pubqueue_http_requests_waiting 1.0" in text

        to = await follow(bee, "/queues/jobs", "consumer")
        waiting = asyncio.create_task(bee.post(to, headers={"Accept-Wait": "50"}))
        await until(waits, every=LOOK)
        await service.stop()
        answer = await waiting
        assert answer.status_code == 503
        assert answer.headers["Connection"] == "close"


async def test_it_serves_https_with_a_certificate_of_its_own(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    tls = f'tls_certificate = "{certificate}"\ntls_key = "{key}"'
    async with RestService(tmp_path, f"{SERVED}\n{tls}") as service:
        port = service.address[1]
        trusting = ssl.create_default_context(cafile=certificate)
        root = f"https://localhost:{port}/rest"
        transport = httpx.AsyncHTTPTransport(verify=trusting, local_address="127.0.0.1")
        async with client_at(root, transport=transport) as etl:
            found = await etl.get("/queues/jobs")
            assert links(found)["poller"] == f"{root}/queues/jobs/consumer"


async def test_check_reports_where_it_would_listen(tmp_path):
    service = RestService(tmp_path)
    checked = await warm_start.pubqueue(
        *("check", "--config", service.path), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(checked.communicate(), TIMEOUT)
    assert checked.returncode == 0, said
    assert b"rest: 127.0.0.1:0" in said


async def test_a_consumer_that_was_deleted_left_no_lock_whatever_happens_then(tmp_path):  # H19
    async with asyncio.timeout(TIMEOUT):
        service = RestService(tmp_path)
        await service.start()
        root = service.root.removesuffix("/rest") + "/hornetq"
        async with service.client("etl", base_url=root) as etl:
            assert (await create(etl, b"one")).status_code == 201
        async with service.client("bee", base_url=root) as bee:
            made = await consumer(bee, autoAck="false")
            message = await bee.post(msg(made)["acknowledge-next"])
            assert message.content == b"one"
            assert (await bee.delete(made.headers["Location"])).status_code == 204
        await service.kill()
        async with service, service.client("etl") as etl:
            counts = (await etl.get("/queues/jobs")).json()["counts"]
        assert (counts["queued"], counts["locked"]) == (1, 0)
