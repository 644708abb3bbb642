"""The gate itself: what is red, what is flaky, what follows from a commit, and which parts of `long` a change forces."""

import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from harness.gate import change, long
from harness.gate.cases import MAX_RED, Case, Flaky, Verdict, judge, table
from harness.gate.running import CI_SECONDS, Gate
from harness.gate.touched import Touched

ROOT = Path(__file__).parents[2]
RED = Case("tests/test_it.py::test_it", 1, "it failed", passed=False)
GREEN = Case("tests/test_it.py::test_it", 1)


def nothing(_case):
    return ""


@pytest.mark.parametrize(
    ("tries", "expected"),
    [
        ([GREEN], ([], [Flaky(RED, GREEN)])),
        ([RED, GREEN], ([], [Flaky(RED, GREEN)])),
        ([RED, RED], ([RED], [])),
    ],
)
def test_a_red_case_is_run_again_at_most_twice_and_is_flaky_if_it_passes(tries, expected):
    waiting = iter(tries)
    assert judge([RED], lambda _: next(waiting), nothing) == expected
    assert list(waiting) == []


def test_of_more_than_five_red_cases_none_is_run_again():
    def again(_case):
        raise AssertionError

    assert judge([RED] * (MAX_RED + 1), again, nothing) == ([RED] * (MAX_RED + 1), [])


def test_a_flaky_case_that_the_change_is_about_is_red():
    _, flaky = judge([RED], lambda _: GREEN, lambda _: "it touches its file")
    assert Verdict("tests", [RED], flaky=flaky).failed
    _, flaky = judge([RED], lambda _: GREEN, nothing)
    assert not Verdict("tests", [RED], flaky=flaky).failed


def test_a_run_that_ended_by_itself_is_red_without_a_red_case():
    assert Verdict("tests", [GREEN], fault="pytest ended with 3").failed


def test_the_table_has_the_red_the_flaky_and_the_slowest_with_their_commands():
    slow = [Case(f"tests/test_slow.py::test_it[{n} s]", n) for n in range(12)]
    verdicts = [
        Verdict("tests", [RED, *slow], [RED], [Flaky(RED, GREEN, "it touches its file")]),
        Verdict("long: demo", [], [RED], fault="pytest ended with 3", refuses=False),
    ]
    again = ".venv/bin/python -Im pytest --randomly-seed=7"
    assert [line.strip() for line in table(verdicts, 7).splitlines()] == [
        f"red  {again} tests/test_it.py::test_it",
        f"flaky  {again} tests/test_it.py::test_it    red, though it passed alone: it touches its file",
        "red, reported  long: demo: pytest ended with 3",
        f"red, reported  {again} tests/test_it.py::test_it",
        *(f"{n}.0 s  {again} 'tests/test_slow.py::test_it[{n} s]'" for n in range(11, 1, -1)),
        "red  tests: 13 cases",
        "red  long: demo: 0 cases",
    ]


@pytest.fixture
def clone(tmp_path):
    """A checkout with three commits of 0, 10 and 13 o'clock."""
    git(tmp_path, "init", "--quiet")
    for hour, name in [(0, "landed"), (10, "first"), (13, "second")]:
        tmp_path.joinpath(name).write_text(name)
        commit(tmp_path, hour)
    return tmp_path


def git(root, *words, **environment):
    line = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@localhost", *words]
    done = subprocess.run(line, check=True, capture_output=True, text=True, env=environment or None)
    return done.stdout.strip()


def commit(root, hour):
    date = f"2026-01-01T{hour:02}:00:00Z"
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=x", GIT_COMMITTER_DATE=date, GIT_AUTHOR_DATE=date)


def test_a_change_is_what_was_committed_in_the_hours_before_its_last_commit(clone, monkeypatch):
    monkeypatch.delenv("CHANGE_BASE", raising=False)
    assert change.base(clone) == git(clone, "rev-parse", "HEAD~2")
    clone.joinpath("new").touch()
    clone.joinpath("landed").write_text("other")
    assert change.paths(clone, change.base(clone)) == {"first", "second", "new", "landed"}


def test_a_change_begins_where_it_parts_from_the_branch_of_others(clone, monkeypatch):
    monkeypatch.delenv("CHANGE_BASE", raising=False)
    git(clone, "update-ref", "refs/remotes/origin/main", "HEAD~1")
    assert change.base(clone) == git(clone, "rev-parse", "HEAD~1")
    monkeypatch.setenv("CHANGE_BASE", "HEAD~2")
    assert change.base(clone) == "HEAD~2"


def test_the_first_change_is_all(clone, monkeypatch):
    monkeypatch.delenv("CHANGE_BASE", raising=False)
    git(clone, "checkout", "--quiet", "HEAD~2")
    assert change.paths(clone, change.base(clone)) == {"landed"}


def test_a_base_that_is_none_is_an_error(clone):
    with pytest.raises(subprocess.CalledProcessError):
        change.paths(clone, "nowhere")


def test_the_seed_follows_from_the_commit(clone, tmp_path_factory):
    assert change.seed(clone) == int(git(clone, "rev-parse", "HEAD")[:8], 16)
    assert change.seed(tmp_path_factory.mktemp("no-clone")) is None


def test_each_part_of_long_has_its_cases_and_what_forces_it():
    words = ["git", "ls-files"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    wrong = [
        f"{part.name}: {beginning}"
        for part in long.PARTS
        for beginning in (*part.cases, *part.forced_by)
        if not any(_begins(file, beginning) for file in files)
    ]
    assert wrong == []


def _begins(file, beginning):
    """Whether that is the beginning of the file's path, or of a case of the file."""
    path, _, case = beginning.partition("::")
    if not path.endswith(".py"):
        return file.startswith(path)
    name = case.rpartition("::")[2].partition("[")[0].strip("*")
    words = (f"def {name}", f"class {name}")
    return file == path and any(word in text for text in texts() for word in words)


@cache
def texts():
    """The texts of the tests: a case may stand in a contract that its file inherits."""
    return [path.read_text() for path in ROOT.glob("tests/**/*.py")]


def test_every_proof_is_in_a_part():
    proofs = (path.relative_to(ROOT) for path in ROOT.glob("proof/**/test_*.py"))
    assert [path for path in proofs if not long.part_of(f"{path}::test_it")] == []


def test_the_files_of_a_part_are_those_that_begin_like_its_cases():
    files = long.BY_NAME["spark"].files(ROOT)
    assert "tests/spark/test_spark_read.py" in files
    assert "tests/spark/test_rows.py" not in files
    assert long.BY_NAME["simulator"].files(ROOT) == ["proof/simulate"]


def test_no_case_is_in_two_parts():
    every = [
        (case, part.name) for part in long.PARTS if not part.looks_again for case in part.cases
    ]
    twice = [
        (case, one, other)
        for case, one in every
        for beginning, other in every
        if case.startswith(beginning) and (case, one) != (beginning, other)
    ]
    assert twice == []


def test_the_newest_python_runs_what_each_commit_has_to_pass():
    newest = long.BY_NAME["python"]
    case = "tests/faces/stomp/served/test_kills.py::TestKills::test_killed_at_each_step"
    assert long.BY_NAME["kills"].has(case)
    assert not newest.has(case)
    case = "tests/rules/test_settle.py::test_it"
    assert newest.has(case)
    assert long.part_of(case) == ""


def test_a_change_forces_the_parts_of_its_paths():
    assert long.forced(["docs/how-to/queue.md"]) == ["site"]
    assert long.forced(["xeps/pubqueue_xeps/wire/ns.py"]) == ["ejabberd", "spark"]
    assert long.forced(["component/pubqueue/stores/sqlite/store.py"]) == [
        "stores",
        "disk",
        "postgres",
    ]
    assert long.forced(["proof/judge/judge.py"]) == ["simulator", "judge", "disk", "control"]
    assert long.forced(["requirements.lock"]) == ["packaging", "gate", "python"]


def test_parts_are_run_from_the_one_whose_turn_it_is():
    first, second, third = long.TURNS[:3]
    assert long.in_turn([first, second, third], 0) == [first, second, third]
    assert long.in_turn([first, second, third], 1) == [second, third, first]
    assert long.in_turn([first, third], 1) == [third, first]
    assert long.in_turn([third, first], 2 + len(long.TURNS)) == [third, first]


def test_a_part_that_would_not_end_in_time_is_left_out():
    stores, site = long.BY_NAME["stores"].seconds, long.BY_NAME["site"].seconds
    assert long.fitting(["stores", "site"], stores + site, 1) == ["stores", "site"]
    assert long.fitting(["stores", "site"], stores + site, 1.1) == ["stores"]
    assert long.fitting(["stores", "site"], site, 1) == ["site"]
    assert long.fitting(["stores", "site"], -1, 1) == []


def test_every_part_but_those_of_hours_has_its_turn():
    short = sorted(set(long.BY_NAME) - {"millions"})
    turns = [long.turn(number, []) for number in range(7, 7 + len(short))]
    assert sorted(turns) == short
    assert long.turn(0, [long.PARTS[0].name]) == ""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("tests/rules/test_settle.py", "the change touches its file"),
        (
            "component/pubqueue/rules/settle.py",
            "it imports component/pubqueue/rules/settle.py, which the change touches",
        ),
        (
            "component/pubqueue/rules/new.py",
            "the change touches component/pubqueue/rules/new.py, of its room",
        ),
        ("component/pubqueue/faces/stomp/face.py", ""),
    ],
)
def test_a_change_is_about_a_test(changed, expected):
    touched = Touched(ROOT, frozenset([changed]))
    assert touched("tests/rules/test_settle.py::test_it[x]") == expected
    assert ("tests/rules/test_settle.py" in touched.direct()) is bool(expected)


def test_what_a_change_reaches_by_other_modules_is_more_than_what_it_is_about():
    touched = Touched(ROOT, frozenset(["component/pubqueue/rules/settle.py"]))
    assert "tests/engine/test_broker.py" in set(touched.reached()) - set(touched.direct())


CASES = """
import faulthandler
import threading
from pathlib import Path

from _pytest.faulthandler import fault_handler_stderr_fd_key

MARK = Path(__file__).with_name("mark")


def test_passes():
    pass


def test_is_red():
    raise AssertionError


def test_fails_the_first_time():
    print("what it printed")
    if not MARK.exists():
        MARK.touch()
        raise AssertionError("the first time")


def test_hangs(pytestconfig):
    # its time is over at once, that of the others is not, however slow the machine is
    there = pytestconfig.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(0.1, exit=True, file=there)
    threading.Event().wait()
"""
SETTINGS = f"""
[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["{ROOT}/tests"]
faulthandler_timeout = 300
faulthandler_exit_on_timeout = true
asyncio_default_fixture_loop_scope = "function"
"""


def test_a_run_names_what_hangs_runs_again_what_is_red_and_keeps_both_outputs(clone, capfd):
    clone.joinpath("tests").mkdir()
    clone.joinpath("tests", "test_it.py").write_text(CASES)
    clone.joinpath("tests", "conftest.py").write_text('pytest_plugins = ["harness.gate.plugin"]')
    clone.joinpath("pyproject.toml").write_text(SETTINGS)
    commit(clone, 14)
    gate = Gate(clone, "2", "HEAD")
    verdict = gate.daily()
    assert gate.ended() == 1
    assert {case.test.partition("::")[2] for case in verdict.red} == {"test_is_red", "test_hangs"}
    (flaky,) = verdict.flaky
    assert (flaky.red.test, flaky.because) == ("tests/test_it.py::test_fails_the_first_time", "")
    assert "the first time" in flaky.red.output
    assert "1 passed" in flaky.alone.output
    assert "what it printed" in flaky.alone.output
    (kept,) = clone.joinpath("build", "flaky").iterdir()
    assert flaky.red.output in kept.read_text()
    out, err = capfd.readouterr()
    assert "in test_hangs" in out  # its stack, when it ran alone
    assert "in test_hangs" in err  # and when it ran beside others
    assert f"--randomly-seed={change.seed(clone)} tests/test_it.py::test_hangs" in out


NEWEST_MADE = f"""#!/bin/sh
mkdir -p .venv/newest/bin
printf '#!/bin/sh\\nNEWEST=yes exec {sys.executable} "$@"\\n' > .venv/newest/bin/python
chmod +x .venv/newest/bin/python
"""
"""Makes what calls itself the newest Python."""
NEWEST_RUNS = """
import os


def test_it():
    assert os.environ["NEWEST"] == "yes"


def test_is_red():
    raise AssertionError
"""


@pytest.mark.parametrize("made", [True, False])
def test_a_part_is_run_with_the_newest_python_if_that_is_there(clone, capfd, made):
    tool, tests = clone / "tools" / "newest_python", clone / "tests" / "rules"
    tests.mkdir(parents=True)
    tool.parent.mkdir()
    tool.write_text(NEWEST_MADE if made else "#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    tests.joinpath("test_it.py").write_text(NEWEST_RUNS)
    clone.joinpath("conftest.py").write_text('pytest_plugins = ["harness.gate.plugin"]')
    clone.joinpath("pyproject.toml").write_text(SETTINGS)
    commit(clone, 14)
    gate = Gate(clone, "1", "HEAD")
    gate.parts(["python"])
    assert gate.ended() == 1
    (verdict,) = gate.verdicts
    assert [case.test for case in verdict.red] == ["tests/rules/test_it.py::test_is_red"] * made
    assert len(verdict.cases) == 2 * made
    assert bool(verdict.fault) is not made
    said = capfd.readouterr().out
    assert (".venv/newest/bin/python -Im pytest" in said) is made
    assert ("tools/newest_python failed" in said) is not made


FORCES = ["tools/newest_python", "tests/scenarios/new.txt", "mkdocs.yml"]
FORCED = {"servers", "site", "postgres", "python"}
"""The parts that these files force."""


@pytest.mark.parametrize(
    ("spent", "runs"),
    [
        (0, FORCED),
        (CI_SECONDS - long.BY_NAME["site"].seconds - 12, {"site"}),
        (CI_SECONDS + 1, set()),
    ],
)
def test_ci_begins_no_part_that_would_not_end_in_its_time(clone, capfd, monkeypatch, spent, runs):
    for path in FORCES:
        clone.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        clone.joinpath(path).write_text("#!/bin/sh\n")
        clone.joinpath(path).chmod(0o755)
    commit(clone, 14)
    monkeypatch.setenv("CI_BEGAN", str(time.time() - spent))
    gate = Unrun(clone, "1", git(clone, "rev-parse", "HEAD^"))
    gate.ci()
    begun = [one.name.removeprefix("long: ") for one in gate.verdicts if one.refuses]
    assert {name for names in begun for name in names.split(", ")} == {"tests", *runs}
    assert set(gate.left_out) == FORCED - runs
    gate.ended()
    said = capfd.readouterr().out
    assert {name for name in long.TURNS if f"make test-long PART={name}\n" in said} == FORCED - runs


class Unrun(Gate):
    """A gate that notes what it would run."""

    def _judged(self, name, chosen=(), how=(), *, python="", refuses=True):
        self.verdicts.append(Verdict(name, (), refuses=refuses))


def test_the_command_lists_the_parts():
    line = [sys.executable, "-I", ROOT / "tools" / "gate", "parts"]
    listed = subprocess.run(line, capture_output=True, text=True, check=True)
    assert listed.stdout == f"{long.described()}\n"
