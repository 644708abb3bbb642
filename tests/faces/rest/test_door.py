"""Who is let in: by credentials of this face, and from no page of another site."""

import httpx
import pytest
from faces.rest.clients import client, follow
from harness.servers.users import RIGHT


@pytest.mark.parametrize("path", ["/queues/jobs", "/none"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic !"},
        {"Authorization": "Basic ZXRs"},
        {"Authorization": "Bearer nothing-that-anyone-has"},
        {"Authorization": "Digest x"},
    ],
)
async def test_without_credentials_nothing_is_answered(rest, path, headers):  # W06
    async with client(rest.root, "", headers=headers) as stranger:
        answer = await stranger.get(path)
    assert answer.status_code == 401
    assert len(answer.headers.get_list("WWW-Authenticate")) == 2
    assert "Basic" in answer.headers["WWW-Authenticate"]


async def test_users_of_other_faces_and_wrong_passwords_are_strangers(rest):  # W06
    async with client(rest.root, "") as stranger:
        for pair in (("elsewhere", RIGHT), ("etl", "wrong"), ("nobody", RIGHT)):
            assert (await stranger.get("/queues/jobs", auth=pair)).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "http://HOST"}, 201),
        ({"Origin": "HTTP://HOST", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "http://HOST", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://HOST:1"}, 403),
    ],
)
async def test_pages_of_other_sites_cannot_post(rest, headers, status):
    etl = await rest.as_()
    host = httpx.URL(rest.root).netloc.decode()
    headers = {name: value.replace("HOST", host) for name, value in headers.items()}
    to = await follow(etl, "/queues/jobs", "post-message")
    assert (await etl.post(to, headers=headers, content=b"x")).status_code == status
