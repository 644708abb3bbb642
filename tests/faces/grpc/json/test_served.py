"""`pubqueue serve` with `grpc.json`: on both stores, killed, with the page, with TLS, reloaded, and what metrics show."""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import grpc
import httpx
from faces.grpc.clients import SUBSCRIBER, Stub
from faces.grpc.json.clients import Google, error_of, plain
from faces.grpc.json.conftest import BILL, TOPIC
from faces.grpc.service import SERVED, GrpcService
from harness.http.clients import PLAIN
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.tls import certify, openssl
from harness.starts import warm_start

if TYPE_CHECKING:
    from pathlib import Path

BOTH = f'{SERVED}\njson = "127.0.0.1:0"'
ALONE = 'json = "127.0.0.1:0"\nanonymous = "dev"'
ON_PAGE = re.compile(r"event=http\.listening .*?host=(\S+) port=(\d+)")
PULL = {"subscription": BILL, "returnImmediately": True}


def put(data):
    return {"topic": TOPIC, "message": {"data": b64encode(data).decode()}}


async def make(google):
    await google.topics("create", body={"name": TOPIC})
    await google.subscriptions("create", body={"name": BILL, "topic": TOPIC})


async def test_published_in_json_pulled_over_grpc_acknowledged_in_json(kept, tmp_path):  # G46, G49
    """On each store, and with a kill in between: an answer is for good."""
    service = GrpcService(tmp_path, BOTH, store=kept.address)
    async with service, asyncio.timeout(2 * TIMEOUT):
        google = Google(f"http://{service.json}")
        await make(google)
        for data in (b"first", b"second"):
            await google.topics("publish", body=put(data))
        google.close()
        await service.kill()
        await service.start()
        name = "projects/shop/subscriptions/bill"
        async with grpc.aio.insecure_channel(service.address) as channel:
            pulled = await Stub(channel, SUBSCRIBER).Pull(subscription=name, max_messages=1)
        (held,) = pulled.received_messages
        assert held.message.data == b"first"
        google = Google(f"http://{service.json}")
        ack = {"subscription": BILL, "ackId": [held.ack_id]}
        assert await google.subscriptions("acknowledge", body=ack) == {}
        google.close()
        await service.kill()
        await service.start()
        google = Google(f"http://{service.json}")
        found = await google.subscriptions("pullBatch", body=PULL)
        data = [one["pubsubEvent"]["message"]["data"] for one in found["pullResponses"]]
        assert [b64decode(one) for one in data] == [b"second"]
        google.close()


async def test_json_alone_is_served_and_ends_in_order(tmp_path):  # G49
    top = 'http = "127.0.0.2:0"'  # not that of JSON
    async with GrpcService(tmp_path, ALONE, top=top) as service:
        assert "event=grpc.listening " not in service.log
        ((host, port),) = ON_PAGE.findall(service.log)
        async with plain(f"http://{service.json}") as http:

            async def waits():
                text = (await http.get(f"http://{host}:{port}/metrics")).text
                return 'pubqueue_waiting{what="takes"} 1.0' in text

            await http.post("/topics", json={"name": TOPIC})
            await http.post("/subscriptions", json={"name": BILL, "topic": TOPIC})
            waiting = asyncio.ensure_future(
                http.post("/subscriptions/pull", json={"subscription": BILL})
            )
            await until(waits, every=LOOK)
            await service.stop()
            answer = await asyncio.wait_for(waiting, TIMEOUT)
            assert error_of(answer.content) == (503, "UNAVAILABLE")


async def test_it_is_on_the_server_of_the_page_and_counted(tmp_path):  # G49
    async with GrpcService(tmp_path, BOTH, top='http = "127.0.0.1:0"\n') as service:
        assert "grpc.listening_for_json" not in service.log
        ((host, port),) = ON_PAGE.findall(service.log)
        root = f"http://{host}:{port}"
        async with plain(root) as http, httpx.AsyncClient(**PLAIN) as monitor:
            await http.post("/topics", json={"name": TOPIC})
            await http.post("/topics", json={"name": TOPIC})
            await http.get("/nonsense")
            text = (await monitor.get(f"{root}/metrics")).text
    found = re.findall(
        r'pubqueue_http_requests_total\{profile="v1beta1a",route="(.*?)",status="(\d+)"\} (\S+)',
        text,
    )
    assert sorted(found) == [
        ("none", "404", "1.0"),
        ("topics.create", "200", "1.0"),
        ("topics.create", "409", "1.0"),
    ]
    assert text.count("\npubqueue_http_requests_waiting ") == 1


async def test_with_rest_beside_it_metrics_are_whole(tmp_path):  # G49
    rest = '\n[rest]\nlisten = "127.0.0.1:0"\n'
    async with GrpcService(tmp_path, BOTH, rest, top='http = "127.0.0.1:0"\n') as service:
        ((host, port),) = ON_PAGE.findall(service.log)
        async with httpx.AsyncClient(**PLAIN) as monitor:
            text = (await monitor.get(f"http://{host}:{port}/metrics")).text
    assert text.count("\npubqueue_http_requests_waiting ") == 1


async def test_tls_and_client_certificates_and_a_reload(tmp_path):  # G40, G49
    key, certificate = await certify(tmp_path, "localhost")
    ca_key, ca = await certify(tmp_path, "authority")
    own, request, made = (tmp_path / name for name in ("own.key", "own.csr", "own.crt"))
    words = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    await openssl(f"{words} -subj /CN=cert -keyout {own} -out {request}")
    signed = f"-CA {ca} -CAkey {ca_key} -CAcreateserial -days 1"
    await openssl(f"x509 -req -in {request} {signed} -out {made}")
    files = f'tls_certificate = "{certificate}"\ntls_key = "{key}"\nclient_ca = "{ca}"'
    user = '\n[[user]]\nname = "cert"\ncertificate = "CN=cert"\nlocal = true\n'
    async with GrpcService(tmp_path, f'json = "127.0.0.1:0"\n{files}', user) as service:
        root = f"https://localhost:{service.json.rpartition(':')[2]}"
        async with plain(root, verify=trusting(certificate, (made, own))) as known:
            assert (await known.post("/topics", json={"name": TOPIC})).json() == {"name": TOPIC}
        async with plain(root, verify=trusting(certificate)) as stranger:
            answer = await stranger.get("/topics")
            assert error_of(answer.content) == (401, "UNAUTHENTICATED")
        async with plain(root, "etl", verify=trusting(certificate)) as etl:
            assert (await etl.get("/topics")).json() == {}
        old = trusting(certificate)
        await certify(tmp_path, "localhost")
        await service.reload()
        async with plain(root, "etl", verify=trusting(certificate)) as etl:
            assert (await etl.get("/topics")).json() == {}
        async with plain(root, "etl", verify=old) as etl:
            assert isinstance(await failed(etl.get("/topics")), httpx.ConnectError)


def trusting(certificate: Path, pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificate))
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


async def failed(call):
    (found,) = await asyncio.gather(call, return_exceptions=True)
    return found


async def test_an_address_needs_a_restart_and_users_do_not(tmp_path):  # G49
    async with (
        GrpcService(tmp_path, 'json = "127.0.0.1:0"') as service,
        plain(f"http://{service.json}", "etl") as etl,
    ):
        assert (await etl.get("/topics")).status_code == 200
        text = service.path.read_text().replace('json = "127.0.0.1:0"', 'json = "127.0.0.1:1"')
        service.path.write_text(text.replace('name = "etl"', 'name = "bee"'))
        await service.reload()
        await until(lambda: "event=config.needs_restart keys=grpc" in service.log)
        assert (await etl.get("/topics")).status_code == 401


async def test_an_address_that_is_taken_is_named(tmp_path):  # G49
    async with GrpcService(tmp_path, ALONE) as service:
        (tmp_path / "other").mkdir()
        more = ALONE.replace("127.0.0.1:0", service.json)
        other = GrpcService(tmp_path / "other", more)
        process = await warm_start.pubqueue(
            *("serve", "--config", other.path), stderr=asyncio.subprocess.PIPE
        )
        _, said = await asyncio.wait_for(process.communicate(), TIMEOUT)
        assert process.returncode != 0
        assert service.json.encode() in said


async def test_check_reports_where_it_is(tmp_path):  # G49
    service = GrpcService(tmp_path, 'listen = "8085"\njson = "8086"')
    process = await warm_start.pubqueue(
        *("check", "--config", service.path), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert b"grpc: 127.0.0.1:8085, 127.0.0.1:8086 (JSON)\n" in said
