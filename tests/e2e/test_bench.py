"""The benchmark runs, with few items: what it measures is asserted nowhere."""

import re

import pytest
from bench import big, memory, paper, qos_held, situations, stock, stores, watched
from bench.__main__ import main
from bench.contestants import PROGRAMS
from bench.grpc import __main__ as grpc
from bench.measure import Work
from bench.measure_stores import CONTESTANTS, POSTGRES
from bench.places import PLACES
from bench.report import spread
from bench.rest import __main__ as rest
from bench.stanzas import SIX, sizes
from bench.stomp import __main__ as stomp
from bench.stomp.brokers import installed
from bench.stomp.codecs import frames_per_second
from click.testing import CliRunner
from harness.stores.recount import recount

pytestmark = pytest.mark.e2e


def run(*arguments, command=main):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_every_contestant_is_measured_in_every_place():
    result = run("--items", "40", "--rounds", "1", "--window", "8", "--requests", "2")
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ (\w+) +│ ([\w-]+) +│ +(\d+) \(", result.output, re.MULTILINE)
    assert [(place, name) for place, name, _ in rows] == [
        (place, name) for place in PLACES for name in PROGRAMS
    ]
    assert all(int(rate) > 0 for _, _, rate in rows)
    assert all(re.search(rf"^│ {name} +│ +\d+, \d+ │", result.output, re.MULTILINE) for name in SIX)


def test_every_situation_is_measured():
    few = ("--items", "40", "--rounds", "1", "--backlog", "3000", "--nodes", "30")
    result = run(*few, command=situations.main)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ ([\w, ]+?) +│ +(\d+) \(", result.output, re.MULTILINE)
    long, short = "backlog of 3,000", "backlog of 1,000"
    assert [name for name, _ in rows] == ["empty", "event log on", short, long, "30 nodes"]


def test_a_store_with_held_messages_is_measured_beside_one_without():
    few = ("--messages", "200", "--items", "100", "--rounds", "1")
    result = run(*few, command=qos_held.main)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ +(\w+) │ +(\d+) \(", result.output, re.MULTILINE)
    assert [name for name, _ in rows] == ["none", "200"]


def test_big_stores_are_measured_after_a_kill():
    few = ("--items", "2000", "--queues", "20", "--subscribers", "20", "--lives", "120")
    result = run(*few, command=big.main)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ ([\w, ]+?) +│ +[\d.]+ \([\d.]+ x\) │", result.output, re.MULTILINE)
    assert rows == ["1,000 waiting", "2,000 waiting", "20 queues", "20 subscribers"]


def test_rest_is_measured_beside_a_bare_handler():
    few = ("--requests", "200", "--rounds", "1", "--seconds", "0.5", "--waiting", "20")
    result = run(*few, command=rest.main)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ ([\w, -]+?) +│ ", result.output, re.MULTILINE)
    assert next(name for name in rows if name.strip()) == "POST post-message, 64 connections"
    assert {"batches of 100, 16 connections", "requests that wait"} <= set(rows)


def test_grpc_is_measured_beside_a_bare_handler():
    few = ("--messages", "400", "--rounds", "1", "--streams", "20")
    result = run(*few, command=grpc.main)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ ([\w, -]+?) +│ ", result.output, re.MULTILINE)
    assert next(name for name in rows if name.strip()) == "one message, 50 at once"
    assert {"lives, in hundreds, 2 streams", "idle streams, calls of others"} <= set(rows)


def test_the_service_is_measured_while_it_is_watched():
    result = run("--items", "400", "--rounds", "1", "--nodes", "30", command=watched.main)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"^│ ([\w,: ]+?) +│ +(\d+) \(", result.output, re.MULTILINE)
    ways = ("unwatched", "every 15 s", "every 1 s", "every 1 s, page")
    assert [name for name, _ in rows] == [*ways, *(f"30 nodes: {way}" for way in ways)]
    assert all(int(rate) > 0 for _, rate in rows)


async def test_a_service_is_scraped_at_the_given_interval(tmp_path):
    async with PLACES["direct"]() as place:
        work = Work(items=400)
        often = watched.Way(every=0.01)
        found = await watched.one_round("direct", place, work, often)
    assert found.scrapes > 0


def test_both_stores_and_the_other_queues_are_measured():
    result = run("--items", "40", "--rounds", "1", "--window", "8", command=stores.main)
    assert result.exit_code == 0, result.output
    shown = re.findall(r"^│ ([\w, -]+?) +│ +(\d+) \(", result.output, re.MULTILINE)
    assert [name for name, _ in shown] == list(CONTESTANTS)
    assert all(int(rate) > 0 for _, rate in shown)
    against = re.findall(r"^│ [\w/ ]+ │ ([\w, -]+?) +│ +[\d.]+ \(", result.output, re.MULTILINE)
    assert against == ["pubqueue, SQLite", *(name for name in CONTESTANTS if name != POSTGRES)]
    assert "16 cores of the database would carry" in result.output


def test_stomp_is_measured_beside_the_other_brokers(tmp_path):
    page, picture = tmp_path / "page.md", tmp_path / "picture.svg"
    page.write_text("before\n<!-- rivals -->\nan old table\n<!-- end of rivals -->\nafter\n")
    few = ("--items", "40", "--rounds", "1", "--seconds", "0.1", "--connections", "10")
    result = run(
        *few, "--parts", "lives,single,paced,idle", "--write", page, picture, command=stomp.main
    )
    assert result.exit_code == 0, result.output
    before, begin, head, _, *lines, end, after = page.read_text().splitlines()
    assert (before, begin, end, after) == (
        "before",
        "<!-- rivals -->",
        "<!-- end of rivals -->",
        "after",
    )
    assert [line.count("|") for line in lines] == [head.count("|")] * len(installed())
    assert picture.read_text().startswith("<?xml")
    rows = re.findall(r"^│ (\w+) +│ +([\d.]+) \(", result.output, re.MULTILINE)
    with_beats = [name for name in installed() if name in {"pubqueue", "rabbitmq"}]
    assert [name for name, _ in rows] == [*(3 * installed()), *with_beats]


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks\n")
    of_page = ("--write", page, tmp_path / "picture.svg")
    result = run(*of_page, command=stomp.main)
    assert result.exit_code == 2
    assert "Error: the page has no <!-- rivals --> and <!-- end of rivals -->" in result.output
    result = run(*of_page, "--parts", "lives", command=stomp.main)
    assert result.exit_code == 2
    assert "Error: --write needs pubqueue and the parts lives, single, paced" in result.output


def test_the_codec_of_stomp_is_measured_on_frames_that_both_read_alike():
    found = frames_per_second(b"x" * 100)
    assert list(found) == ["SEND in", "MESSAGE out"]


def test_the_profile_shows_the_service_under_stomp(tmp_path):
    result = run("--items", "10", "--profile", str(tmp_path), command=stomp.main)
    assert result.exit_code == 0, result.output
    assert "main.prof" in result.output


def test_on_paper_the_part_is_full_first_that_carries_least():
    costs = paper.Costs(component=100, line=40, database=60, server=200)
    assert costs.bounds(2) == {
        "the instances": 20_000,
        "the line of batches": 10_000,
        "16 cores of the database": pytest.approx(266_667, abs=1),
    }
    assert costs.first_full(2) == ("the line of batches", 10_000)
    slow = paper.Costs(component=400, line=40, database=60, server=200)
    assert slow.first_full(2) == ("the instances", 5_000)
    assert slow.first_full(4) == ("the instances", 10_000)


async def test_the_memory_has_a_bound_under_every_load():
    for load in memory.LOADS:
        sample = await memory.measure(load, 0.02)
        assert sample.grown < memory.BOUND, sample


async def test_stocks_are_stores_as_the_service_leaves_them(tmp_path):
    await stock.backlog(tmp_path / "long.db", ["publisher0"], 7)
    await stock.nodes(tmp_path / "many.db", ["publisher0"], 7)
    long, many = recount(tmp_path / "long.db"), recount(tmp_path / "many.db")
    assert long.wrong == many.wrong == ()
    assert list(long.of("jobs").values()) == ["queued"] * 7
    assert [many.of(f"other{number}") for number in range(7)] == [{"waiting": "queued"}] * 7


@pytest.mark.parametrize("short", [True, False])
async def test_the_same_words_are_pubqueue_s_words(short):
    work = Work(short=short)
    ours, same = [await sizes(name, work) for name in ("pubqueue", "same-words")]
    assert ours == same


async def test_without_the_words_of_pubqueue_there_are_fewer():
    ours, lean = [await sizes(name, Work()) for name in ("pubqueue", "lean")]
    assert all(lean[name].elements <= ours[name].elements for name in ours)
    assert lean["publish result"].elements == ours["publish result"].elements == 1


def test_the_profile_shows_the_threads_of_the_component(tmp_path):
    options = ("--servers", "direct", "--items", "8", "--profile", str(tmp_path))
    result = run(*options)
    assert result.exit_code == 0, result.output
    assert "main.prof" in result.output
    assert "thread-1.prof" in result.output


def test_an_unknown_server_is_named():
    assert "openfire is not one of direct, prosody" in run("--servers", "openfire").output


def test_a_spread_shows_median_smallest_and_largest():
    assert spread([3, 1, 2], "{:.0f}".format) == "2 (1-3)"
    assert spread([], "{:.0f}".format) == "-"
