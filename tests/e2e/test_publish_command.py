"""Items are published from a shell, and confirmed before the command ends."""

import asyncio

import pytest
import pytest_asyncio
from harness.operators.at_a_terminal import Operator
from harness.patience import TIMEOUT
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

CONFIG = """
admins = ["root@localhost"]
[[node]]
name = "jobs"
queueing = true
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(tmp_path_factory):
    async with Prosody() as server:
        for name in ("root", "eve"):
            await server.account(name, "secret")
        async with component(server, tmp_path_factory.mktemp("publish"), CONFIG):
            yield Operator(server)


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def emptied(operator):
    yield
    await operator.does("purge", "jobs", "--yes")


async def peeked(operator, name):
    (item,) = await operator.rows("peek", "jobs", name)
    return item


async def test_one_item_with_all_that_goes_beside_it(operator):
    words = ("--id", "i1", "--priority", "7", "--delay", "3600", "--header", "kind: greeting")
    said = await operator.does("publish", "jobs", '{"name": "world"}', *words)
    assert said == "i1 is in jobs.\n"
    item = await peeked(operator, "i1")
    assert (item["state"], item["priority"]) == ("delayed", 7)
    assert item["headers"] == ["kind: greeting"]
    assert item["payload"] == '{\n  "name": "world"\n}'
    again = await operator.rows("publish", "jobs", '{"name": "world"}', *words)
    assert again == [{"done": "publish", "node": "jobs", "id": "i1", "duplicate": True}]
    assert len(await operator.rows("items", "jobs")) == 1


async def test_an_element_from_a_file(operator, tmp_path):
    (tmp_path / "job.xml").write_text("<job xmlns='urn:example:job'>one</job>\n")
    await operator.does("publish", "jobs", f"@{tmp_path}/job.xml", "--id", "x")
    assert "urn:example:job" in (await peeked(operator, "x"))["payload"]


async def test_any_file_with_its_content_type(operator, tmp_path):
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1b[2J")
    await operator.does(
        "publish", "jobs", f"@{tmp_path}/picture", "--id", "p", "--type", "image/png"
    )
    assert (await peeked(operator, "p"))["payload"] == (
        "000000  89 50 4e 47 0d 0a 1b 5b 32 4a" + " " * 20 + ".PNG...[2J"
    )
    await operator.does("publish", "jobs", "a<b", "--id", "t", "--type", "text/plain")
    assert (await peeked(operator, "t"))["payload"] == "a<b"
    assert "of image/png, in hexadecimal" in await operator.does("peek", "jobs", "p")


async def test_what_cannot_be_published_with_a_type_is_one_sentence(operator, tmp_path):
    (tmp_path / "large").write_bytes(bytes(300_000))
    for words, said in (
        ((f"@{tmp_path}/none", "--type", "a/b"), "cannot be read: No such file"),
        ((f"@{tmp_path}/large", "--type", "a/b"), "more than 261120 bytes"),
        (("a", "--type", "a\x01b"), "the content type has the character U+0001"),
    ):
        answered = await operator.says("publish", "jobs", *words)
        assert answered.code == 2
        assert said in answered.err


async def test_lines_of_a_type_are_texts(operator):
    code, _, _ = await piped(
        operator, "a;1\nb;2\n", "--lines", "--id-prefix", "l", "--type", "text/csv"
    )
    assert code == 0
    assert [(await peeked(operator, name))["payload"] for name in ("l1", "l2")] == ["a;1", "b;2"]


async def piped(operator, text, *words):
    process = await asyncio.create_subprocess_exec(
        *(operator.program, "publish", "jobs", "-", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=operator.environment,
    )
    out, err = await asyncio.wait_for(process.communicate(text.encode()), TIMEOUT)
    return process.returncode, out.decode(), err.decode()


async def test_lines_can_be_published_again_and_nothing_doubles(operator):
    words = ("--lines", "--id-prefix", "night-")
    text = '{"n": 1}\n\n{"n": 3}\nno json\n{"n": 5}\n'
    code, out, err = await piped(operator, text, *words)
    assert (code, out) == (2, "")
    assert err.startswith("pubqueue: line 4 is neither JSON nor an XML element (")
    assert err.endswith(". 2 items of jobs confirmed.\n")
    mended = text.replace("no json", '"now it is"')
    assert await piped(operator, mended, *words) == (
        *(0, "4 items of jobs confirmed, 2 of them already existed.\n", ""),
    )
    ids = [row["id"] for row in await operator.rows("items", "jobs")]
    assert sorted(ids) == ["night-1", "night-3", "night-4", "night-5"]


async def test_more_lines_than_are_read_at_once(operator):
    text = "".join(f"{number}\n" for number in range(1100))
    code, out, _ = await piped(operator, text, "--lines", "--json")
    assert code == 0
    assert '"count": 1100' in out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("nowhere", "{}"), 1, "nowhere"),
        (("jobs", "{"), 2, "the payload is neither JSON nor an XML element"),
        (("jobs", "<a"), 2, "the payload is not an XML element"),
        (("jobs", "@/none/there"), 2, "/none/there cannot be read: No such file or directory"),
        (("jobs", "{}", "--header", "kind"), 2, "--header takes 'NAME: VALUE'"),
        (("jobs", "{}", "--lines", "--id", "a"), 2, "with --lines, use --id-prefix"),
        (("jobs", "{}", "--id-prefix", "a"), 2, "for one item, use --id"),
        (("jobs", "{}", "--id", ""), 2, "--id is empty"),
    ],
)
async def test_what_cannot_be_published_is_one_sentence(operator, words, code, sentence):
    said = await operator.says("publish", *words)
    assert (said.code, said.out, said.err.count("\n")) == (code, "", 1), said
    assert sentence in said.err


async def test_a_publisher_without_rights_gets_an_error(operator):
    url = operator.url.replace("root@", "eve@")
    said = await operator.says("publish", "jobs", "{}", "--url", url)
    assert (said.code, said.err.count("\n")) == (1, 1)
