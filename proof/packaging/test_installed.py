"""The wheel in environments that have what an extra brings and no more: what works there, and what says what it needs."""

import asyncio
import json
import re
import subprocess

import pytest
from harness.machines.pythons import (
    EXTRAS,
    PROJECT,
    ROOT,
    build_wheel,
    install,
    python_with,
    required,
)
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python_of(wheel, tmp_path_factory):
    """Return the Python of an environment with the wheel, and with one of its extras or none."""
    made = {}

    def python_of(extra=""):
        if extra not in made:
            folder = tmp_path_factory.mktemp(extra or "client")
            brought = {*required(), *required(extra)}
            made[extra] = python_with(folder, *brought)
            install(wheel, made[extra], extra)
        return made[extra]

    return python_of


def run(python, *arguments):
    """Return exit code, what was printed, and what was said on standard error."""
    ran = subprocess.run(
        [python, *arguments], capture_output=True, text=True, check=False, cwd=python.parent
    )
    return ran.returncode, ran.stdout, ran.stderr


def pubqueue(python, *arguments):
    return run(python, python.with_name("pubqueue"), *arguments)


IMPORTED = """
import importlib, pkgutil, sys
import pubqueue, pubqueue_xeps
for name in getattr(pubqueue, "__all__", ()):
    getattr(pubqueue, name)
for found in pkgutil.walk_packages(pubqueue_xeps.__path__, "pubqueue_xeps."):
    try:
        importlib.import_module(found.name)
    except ImportError as problem:  # of an extra
        print(problem)
tops = {name.partition(".")[0] for name in sys.modules}
print(*sorted(tops & {"aiohttp", "aiosqlite", "click", "lxml", "psycopg", "pyspark", "pytest", "uvloop"}))
"""


def test_the_client_takes_little_and_imports_nothing_of_the_service(python_of):
    names = sorted(re.match(r"[\w-]+", one)[0] for one in PROJECT["dependencies"])
    assert names == ["click", "msgspec", "rich", "slixmpp", "structlog"]
    code, said, reported = run(python_of(), "-Ic", IMPORTED)
    assert (code, reported) == (0, "")
    *sentences, imported = said.splitlines()
    assert imported == ""
    for sentence in sentences:
        assert re.fullmatch(r"[\w ]+ needs? pip install 'pubqueue\[\w+\]'\.", sentence)


def test_the_client_has_the_program_which_names_all_commands(python_of):
    code, said, _ = pubqueue(python_of(), "--help")
    assert code == 0
    for name, extra in {"serve": "server", "check": "server", "migrate": "server"}.items():
        assert re.search(
            rf"^  {name} +Needs pip install 'pubqueue\[{extra}\]'\.$", said, re.MULTILINE
        )
    assert pubqueue(python_of(), "--version")[1] == f"pubqueue, version {PROJECT['version']}\n"


@pytest.mark.parametrize("command", ["serve", "check", "migrate"])
def test_a_command_of_the_service_names_what_it_needs(python_of, command):
    code, said, sentence = pubqueue(python_of(), command, "--config", "x")
    assert (code, said) == (2, "")
    needs = f"pubqueue: {command} needs pip install 'pubqueue\\[server\\]' \\(no module \\w+\\)\n"
    assert re.fullmatch(needs, sentence)


def test_the_demo_names_what_it_needs(python_of):
    for extra in ("", "server"):
        code, _, sentence = pubqueue(python_of(extra), "demo")
        assert (code, sentence.count("\n")) == (2, 1)
        assert "pubqueue[demo]" in sentence


NOTED = """
import asyncio
from pubqueue.testing import make_item
async def main():
    item = make_item({"order": 7})
    async with item:
        pass
    print(item.state)
asyncio.run(main())
"""


def test_items_for_handlers_need_the_client_alone_and_the_service_names_what_it_needs(python_of):
    assert run(python_of(), "-Ic", NOTED) == (0, "retracted\n", "")
    code, _, reported = run(python_of(), "-Ic", "from pubqueue.testing import Service")
    assert code == 1
    assert re.fullmatch(
        r"ImportError: pubqueue\.testing\.Service needs pip install 'pubqueue\[server\]' \(no module \w+\)",
        reported.splitlines()[-1],
    )


def test_the_spark_format_names_what_it_needs(python_of):
    code, _, reported = run(python_of(), "-Ic", "import pyspark_pubqueue")
    sentence = (
        "ImportError: the Spark format needs pip install 'pubqueue[spark]' (no module pyspark)"
    )
    assert (code, reported.splitlines()[-1]) == (1, sentence)


async def test_the_service_serves(python_of, tmp_path):
    async with StubServer() as server:
        config = write_config(tmp_path, server)
        async with Program(config, [python_of("server").with_name("pubqueue")]):
            await server.connected()
        code, said, _ = await asyncio.to_thread(
            pubqueue, python_of("server"), "migrate", f"sqlite:///{tmp_path}/pubqueue.db", "memory:"
        )
    assert (code, said) == (2, "")  # it has been understood: nobody copies to memory


TESTED = """
import asyncio
from pubqueue.testing import Service
async def handle(item):
    pass
with Service() as service:
    service.create("jobs")
    service.publish("jobs", {"order": 7}, id="a")
    asyncio.run(service.work(handle, node="jobs"))
    print(service.done("jobs"))
"""


def test_the_service_runs_in_a_test(python_of):
    assert run(python_of("server"), "-Ic", TESTED) == (0, "['a']\n", "")


def test_the_store_in_postgresql_names_what_it_needs(python_of):
    options = ["--jid", "queue.localhost", "--store", "postgresql://nobody@127.0.0.1/none"]
    code, said, sentence = pubqueue(python_of("server"), "check", *options)
    assert (code, said) == (2, "")
    assert sentence == "pubqueue: store postgresql:// needs psycopg: install pubqueue[postgres]\n"


STORE = """
import importlib, pkgutil
from pubqueue import stores
for found in pkgutil.walk_packages(stores.__path__, "pubqueue.stores."):
    importlib.import_module(found.name)
print(type(stores.store_at("postgresql://nobody@127.0.0.1/none")).__name__)
"""


def test_the_store_in_postgresql_is_there_with_its_extra(python_of):
    assert run(python_of("postgres"), "-Ic", STORE) == (0, "PostgresStore\n", "")


ABOUT = """
import importlib.metadata, json
print(json.dumps(importlib.metadata.metadata("pubqueue").json))
"""


def test_the_page_on_an_index_has_no_link_that_leads_nowhere(python_of):
    code, said, _ = run(python_of(), "-Ic", ABOUT)
    assert code == 0
    about = json.loads(said)
    assert about["description"] == (ROOT / PROJECT["readme"]).read_text()
    assert re.findall(r"\]\((?!https://)", about["description"]) == []
    assert all(re.fullmatch(r".+, https://xmpp\.org/\S+", url) for url in about["project_url"])
    for extra in EXTRAS.keys() - {"demo"}:
        assert f"pip install 'pubqueue[{extra}]'" in about["description"]


def test_the_page_about_installing_names_the_extras_that_there_are():
    page = (ROOT / "docs/how-to/install.md").read_text()
    named = set(re.findall(r"pip install 'pubqueue\[(\w+)\]'", page))
    assert named == set(EXTRAS)
    for library in ("slixmpp", "msgspec", "structlog", "click", "rich"):
        assert library in page.partition("Everything else")[0]


def test_the_page_about_installing_shows_the_real_output(python_of):
    page = (ROOT / "docs/how-to/install.md").read_text()
    (shown,) = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    serve, said, check, and_said = shown.splitlines()
    assert pubqueue(python_of(), *serve.split()[2:])[2] == said + "\n"
    assert pubqueue(python_of("server"), *check.split()[2:])[2] == and_said + "\n"
