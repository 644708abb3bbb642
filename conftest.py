"""Hypothesis: `make test` draws the same examples every time, `make fuzz` new ones and more of them.

And the order of all tests, beside which others they run, and the PostgreSQL that all tests of a process share.
"""

import gc
import os
from pathlib import Path

import pytest
import structlog
from harness import depth, run_folder, side_by_side
from harness.as_before import process_as_before
from harness.processes import interrupts
from harness.run_folder import RunFolder
from hypothesis import settings

# the contracts of stores and kills, and what others take from beside them: their failures are told like those of tests
pytest.register_assert_rewrite("stores", "faces.kill_contract")

pytest_plugins = ["harness.gate.plugin"]

interrupts.hear()

# a traceback in colours, with the code around each line, takes two seconds of a log that nobody reads
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback

gc.disable()  # until all is collected, for nothing of it goes away: a fifth of the time

FOLDER, FAILED = pytest.StashKey[RunFolder](), pytest.StashKey[bool]()

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")

# every Java of these tests is over before better code would pay
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_addoption(parser):
    """Let tests look deeper than with each commit."""
    parser.addoption(
        "--deep", action="store_true", help="draw ten times as many examples where they are dear"
    )


@pytest.hookimpl(tryfirst=True)  # before pytest chooses where temporary files go
def pytest_configure(config):
    """Say how deep the tests look, before they are imported; and where their files are."""
    if config.getoption("deep"):
        os.environ[depth.VARIABLE] = str(depth.DEEP)
    if hasattr(config, "workerinput"):
        run_folder.share(Path(config.workerinput["run_folder"]))
        return
    config.stash[FOLDER] = folder = RunFolder()
    if config.option.basetemp is None:
        config.option.basetemp = str(folder.path / "t")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a process where the files of the run are."""
    node.workerinput["run_folder"] = str(node.config.stash[FOLDER].path)


def pytest_unconfigure(config):
    """Remove the files of the run, unless a test has failed."""
    if folder := config.stash.get(FOLDER, None):
        folder.close(keep=config.stash.get(FAILED, False))


def pytest_sessionfinish(session, exitstatus):
    """Remember whether there is something to look at."""
    session.config.stash[FAILED] = exitstatus not in {0, pytest.ExitCode.NO_TESTS_COLLECTED}


def pytest_collection_modifyitems(items):
    """Begin with what takes long; the sort is stable, and the order random otherwise."""
    items.sort(key=lambda item: side_by_side.turn(item.nodeid))


def pytest_collection_finish():
    """Leave the modules and tests themselves out of every later look for garbage: a tenth of the processor time."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Say who stays together."""
    config.option.loadscopereorder = False
    return side_by_side.Units(config, log)


@pytest.fixture(autouse=True)
def as_before():
    """Programs that a test runs in its own process configure that for themselves alone."""
    with process_as_before():
        yield


@pytest.fixture(autouse=True, scope="module")
def nothing_forgotten():
    """What the tests of a file have forgotten to close is found at its end, and not in a test of another file.

    The next look leaves out what is alive then, mostly modules: it costs 6 ms instead of 30.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def stores_laid_at_once():
    """New SQLite stores of this process get their tables at once; tests of the schema make them by migrations."""
    from harness.stores import laid  # noqa: PLC0415 - what starts no test needs no store

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laid.schema, "migrate", laid.at_once)
        yield


@pytest.fixture(scope="session")
def running_postgres():
    """The server itself, started when a test first asks for it."""
    from harness.databases.postgres import Postgres  # noqa: PLC0415 - only these tests reach it

    with Postgres(max_wal_size="96MB") as server:  # its log is in memory, and lives long
        yield server


@pytest.fixture
def postgres(running_postgres):
    """A server with an empty store."""
    running_postgres.wipe()
    return running_postgres


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path):
    """Where a program keeps its queues: a place without any. Each test that asks runs on both stores."""
    from harness.stores.kept import KeptInFile, KeptInPostgres  # noqa: PLC0415 - few tests need it

    if request.param == "sqlite":
        return KeptInFile(tmp_path / "pubqueue.db")
    return KeptInPostgres(request.getfixturevalue("postgres"))
