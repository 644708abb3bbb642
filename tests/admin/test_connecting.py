"""`--config` on the host of the service: by a key that only its user can read, and that is never sent."""

import asyncio
import os
import pwd
import stat

import aiohttp
import pytest
from harness.operators.over_http import HttpOperator, HttpService
from harness.servers.tls import certify

from pubqueue.accounts import local_key

REFUSED = {401, 429}
"""Statuses of answers to wrong signatures, of which a peer soon has too many."""


async def test_the_configuration_is_enough_on_the_host(tmp_path):
    async with HttpService(tmp_path) as service:
        here = HttpOperator()
        config = ("--config", str(service.path))
        assert await here.does("publish", "jobs", "1", "--id", "i1", *config) == "i1 is in jobs.\n"
        assert (await here.rows("peek", "jobs", "i1", *config))[0]["payload"] == "1"
        (about,) = await here.rows("service", *config)
        assert about["nodes"] == 1
        assert "purge" in await purged(here, config, service)
        assert await here.does("doctor", *config)
        said = await here.says("queues", *config, "--url", "http://anna@127.0.0.1:9/")
        assert (said.code, "contradict" in said.err) == (2, True)
        key = tmp_path / "pubqueue.db.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert key.read_text().strip() not in service.log
        before = key.read_text()
    async with service:
        assert key.read_text() == before, "other instances have the same key"
        assert await here.rows("queues", *config)


async def purged(here, config, service):
    """Purge the queue, and return the line of the audit log."""
    await here.does("purge", "jobs", "--yes", *config)
    (line,) = (line for line in service.log.splitlines() if "operation=purge" in line)
    name = os.environ.get("SUDO_USER") if os.geteuid() == 0 else None
    assert f"by=queue.localhost/local-{name or pwd.getpwuid(os.geteuid()).pw_name} " in line
    assert "remote=127.0.0.1" in line
    return line


async def test_a_stranger_on_the_host_gains_nothing(tmp_path):
    """Who may read the configuration, but not the key; and who listens or replays."""
    async with HttpService(tmp_path) as service, aiohttp.ClientSession() as session:
        place = f"http://127.0.0.1:{service.port}"
        target, body = "/api/operations/purge", b'{"node": "jobs"}'
        key = local_key.read(tmp_path / "pubqueue.db.key")

        async def sends(field, path=target, content=body, **more):
            headers = {"Authorization": field, "Content-Type": "application/json", **more}
            async with session.post(place + path, headers=headers, data=content) as answer:
                await answer.read()
                return answer.status, answer.headers.get(local_key.PROOF)

        field, once = local_key.signed(key, "POST", target, body, by="root")
        assert (await sends(field, content=b'{"node": "else"}'))[0] == 403, "another body"
        assert (await sends(field))[0] in REFUSED, "its number is used"
        field, once = local_key.signed(key, "POST", target, body, by="root")
        assert (await sends(field, "/api/operations/pause"))[0] in REFUSED, "another operation"
        assert (await sends(field.replace("by=root", "by=anna")))[0] in REFUSED, "another name"
        forwarded = {"X-Forwarded-For": "192.0.2.1"}
        assert (await sends(field, **forwarded))[0] in REFUSED, "from elsewhere, through a proxy"
        status, proof = await sends(field)
        assert (status, proof is not None) == (200, True)
        assert (await sends(field))[0] in REFUSED, "replayed"
        wrong, _ = local_key.signed(bytes(32), "POST", target, body, by="root")
        status, proof = await sends(wrong)
        assert (status in REFUSED, proof) == (True, None)
        assert once
        assert "scheme=key" in service.log
        assert wrong.rpartition("mac=")[2] not in service.log


async def test_who_cannot_read_the_key_is_told_so(tmp_path):
    async with HttpService(tmp_path) as service:
        key, config = tmp_path / "pubqueue.db.key", str(service.path)
        key.unlink()
        said = await HttpOperator().says("queues", "--config", config)
        assert (said.code, "pubqueue.db.key cannot be read" in said.err) == (2, True), said
        key.write_text(f"{'0' * 64}\n")
        key.chmod(0o644)
        said = await HttpOperator().says("queues", "--config", config)
        assert "only its owner can read" in said.err
        key.chmod(0o600)
        said = await HttpOperator().says("queues", "--config", config)
        assert (said.code, "refuses the login" in said.err) == (1, True), said


async def test_a_program_that_listens_in_its_place_is_found_out(tmp_path):
    async with HttpService(tmp_path) as service:
        config = str(service.path)
    seen = []

    async def pretends(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"operation": "queues", "note": "", "rows": [], "more": false}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(pretends, "127.0.0.1", service.port):
        said = await HttpOperator().says("queues", "--config", config)
    assert (said.code, "another program listens there" in said.err) == (1, True), said
    key = (tmp_path / "pubqueue.db.key").read_text().strip()
    assert seen
    assert key.encode() not in seen[0]


async def test_with_tls_the_key_proves_the_service(tmp_path):
    key, certificate = await certify(tmp_path, "queue.example.org")
    top = f'http_certificate = "{certificate}"\nhttp_key = "{key}"'
    async with HttpService(tmp_path, host="0.0.0.0", top=top) as service:  # what is tried
        assert await HttpOperator().rows("queues", "--config", str(service.path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('http = "192.0.2.1:9254"', "http has no loopback address"),
        ("", "http has no loopback address"),
        ('http = "9254"\nstore = "memory:"', "local_key_file is not set"),
        ('http = "9254"\nhtp = 1', "unknown field `htp`"),
    ],
)
async def test_a_configuration_without_a_way_in_is_one_sentence(tmp_path, text, sentence):
    config = tmp_path / "pubqueue.toml"
    store = "" if "store" in text else f'store = "sqlite:///{tmp_path}/q.db"\n'
    config.write_text(f'jid = "q"\nserver = ""\n{store}{text}\n[stomp]\nlisten = "127.0.0.1:1"\n')
    said = await HttpOperator().says("queues", "--config", str(config))
    assert said.code == 2
    assert sentence in said.err
    assert said.err.count("\n") == 1


async def test_a_key_that_others_can_read_is_not_used(tmp_path):
    key = tmp_path / "key"
    key.write_text(f"{'0' * 64}\n")
    key.chmod(0o640)
    async with HttpService(tmp_path, top=f'local_key_file = "{key}"') as service:
        assert "event=local_key.unusable" in service.log
        assert (await HttpOperator().says("queues", "--config", str(service.path))).code == 2
        key.chmod(0o600)
        said = await HttpOperator().says("queues", "--config", str(service.path))
        assert (said.code, "refuses the login" in said.err) == (1, True), "it has none"
