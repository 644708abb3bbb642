"""Metrics of requests: by route and status, with words of the program alone."""

import re

import httpx
from faces.rest.clients import follow
from faces.rest.served.service import RestService
from harness.http.clients import PLAIN


async def test_requests_are_counted_by_route_and_status(tmp_path):  # W26
    async with RestService(tmp_path, top='http = "127.0.0.1:0"\n') as service:
        host, port = re.findall(r"http\.listening.*?host=(\S+) port=(\d+)", service.log)[-1]
        root = f"http://{host}:{port}"
        service_root = f"{root}/rest"
        async with service.client(base_url=service_root) as etl:
            to = await follow(etl, "/queues/jobs", "post-message")
            for _ in range(3):
                await etl.post(to, content=b"x")
            await etl.get("/a-path-that/nobody-knows")
            await etl.request("PATCH", "/queues/jobs")
        async with httpx.AsyncClient(**PLAIN) as monitor:
            text = (await monitor.get(f"{root}/metrics")).text
    wanted = {
        ("queue", "200"): 1.0,
        ("post-message", "201"): 3.0,
        ("none", "404"): 1.0,
        ("none", "405"): 1.0,
    }
    found = re.findall(
        r'pubqueue_http_requests_total\{profile="rest-star",route="(.*?)",status="(\d+)"\} (\S+)',
        text,
    )
    assert {(route, status): float(count) for route, status, count in found} == wanted
    assert "pubqueue_http_requests_waiting 0.0" in text
    assert "# TYPE pubqueue_rest_pushes_total counter" in text
