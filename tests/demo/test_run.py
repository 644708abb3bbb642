import pytest

from pubqueue_demo import run
from pubqueue_demo.run import run_demo


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"items": 0}, "the demo needs at least one item, not 0"),
        ({"items": -5}, "the demo needs at least one item, not -5"),
        ({"workers": 0}, "the demo runs with 1 to 32 workers, not 0"),
        ({"workers": 33}, "the demo runs with 1 to 32 workers, not 33"),
        ({"instances": 0}, "the demo runs with 1 to 8 instances, not 0"),
        ({"kill_component": -1}, "the component is killed 0 to 50 times, not -1"),
    ],
)
def test_arguments_without_sense_are_refused_in_one_sentence(capsys, arguments, sentence):
    assert run_demo(**arguments) == 2
    assert capsys.readouterr() == ("", f"pubqueue demo: {sentence}\n")


def test_without_spark_the_remedy_is_named(capsys, monkeypatch):
    monkeypatch.setattr(run, "find_spec", lambda _: None)
    assert run_demo() == 2
    assert capsys.readouterr().err == (
        "pubqueue demo: the demo needs Spark: `pip install pubqueue[demo]`\n"
    )


def test_without_prosody_the_remedy_is_named(capsys, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert run_demo(items=1) == 1
    said = capsys.readouterr()
    assert said.err == ("pubqueue demo: Prosody is not installed: run `apt-get install prosody`\n")
