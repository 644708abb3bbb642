import pytest
from harness.documents import followed
from harness.documents.followed import Look, Step, Terminals, differs

STEP = Step("admin", "cat counted", ["3 delayed"])


def test_a_failure_shows_each_look_that_was_another():
    looks = [Look(0.1, ["1 delayed"]), Look(0.3, ["1 delayed"]), Look(0.5, ["2 delayed"])]
    assert differs(STEP, looks).splitlines() == [
        "$ cat counted",
        "3 delayed",
        "--- has shown after 0.1 s:",
        "1 delayed",
        "--- has shown after 0.5 s:",
        "2 delayed",
        "--- after 3 looks in all",
    ]


def test_of_very_many_looks_the_last_are_shown():
    looks = [Look(at, [f"{at} held"]) for at in range(100)]
    report = differs(STEP, looks).splitlines()
    assert report[2:5] == ["--- 88 others before:", "--- has shown after 88.0 s:", "88 held"]
    assert report[-2:] == ["99 held", "--- after 100 looks in all"]


async def test_a_command_that_never_shows_it_fails_with_what_it_has_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(followed, "until", twice)
    step = STEP._replace(typed="echo . >> counted; wc -l < counted")
    async with Terminals(tmp_path, {"admin": {"PATH": "/usr/bin:/bin"}}) as terminals:
        with pytest.raises(AssertionError) as failed:
            await terminals.follow(step)
    report = [line for line in str(failed.value).splitlines() if not line.startswith("--- has")]
    assert report[-3:] == ["1", "2", "--- after 2 looks in all"]


async def twice(condition, *, every):
    """Look as often as a busy machine does."""
    assert every > 0
    for _ in range(2):
        assert not await condition()
    raise TimeoutError
