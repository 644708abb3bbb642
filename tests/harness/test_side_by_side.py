from harness.side_by_side import FIRST, turn, unit


def test_a_session_stays_together_and_a_file_but_not_those_that_wait():
    assert unit("tests/spark/test_spark_read.py::a[x]") == unit(
        "tests/spark/test_spark_follow.py::b"
    )
    assert unit("tests/rules/test_discovery.py::a") == unit(
        "tests/rules/test_discovery.py::T::b[c::d]"
    )
    assert unit("tests/rules/test_discovery.py::a") != unit("tests/rules/test_staging.py::a")
    assert unit("tests/scenarios/test_on_servers.py::a[1]") != unit(
        "tests/scenarios/test_on_servers.py::a[2]"
    )


def test_the_longest_begin():
    tests = ["tests/rules/test_discovery.py::a", *(f"{begin}::a" for begin in reversed(FIRST))]
    assert [turn(test) for test in sorted(tests, key=turn)] == list(range(len(FIRST) + 1))
