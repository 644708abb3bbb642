"""What is read again: users, limits, proxies; addresses and prefixes stay."""

from faces.rest.clients import follow
from faces.rest.served.service import RestService
from harness.patience import until


async def test_users_and_limits_are_taken_over(tmp_path):  # W20
    async with (
        RestService(tmp_path) as service,
        service.client() as etl,
        service.client("ann") as ann,
    ):
        to = await follow(etl, "/queues/jobs", "post-message")
        assert (await etl.post(to, content=b"x" * 100)).status_code == 201
        assert (await ann.get("/queues/jobs")).status_code == 200
        text = service.path.read_text().replace(
            "[rest]", '[rest]\nmax_body = 50\nproxies = ["127.0.0.1"]'
        )
        head, _, tail = text.partition('[[user]]\nname = "ann"')
        service.path.write_text(head + "[[user]]" + tail.partition("[[user]]")[2])
        await service.reload()
        assert (await ann.get("/queues/jobs")).status_code == 401
        large = await etl.post(to, content=b"x" * 100)
        assert (large.status_code, large.json()["limit"]) == (413, 50)
        shown = await etl.get("/queues/jobs", headers={"Forwarded": "host=q.example"})
        assert shown.json()["links"]["poller"].startswith("http://q.example/")
        assert "config.needs_restart" not in service.log


async def test_an_address_needs_a_restart(tmp_path):  # W20
    async with RestService(tmp_path) as service:
        text = service.path.read_text().replace('"127.0.0.1:0"', '"127.0.0.1:1"\nmax_body = 7')
        service.path.write_text(text)
        await service.reload()
        await until(lambda: "event=config.needs_restart keys=rest.listen" in service.log)
        async with service.client() as etl:
            to = await follow(etl, "/queues/jobs", "post-message")
            assert (await etl.post(to, content=b"12345678")).status_code == 413
