import pickle
from pathlib import Path

import pytest

from pubqueue_spark.client.option import Backoff
from pubqueue_spark.errors import OptionError
from pubqueue_spark.source import PubqueueDataSource
from pubqueue_spark.write.options import OPTIONS, settings

LEAST = {"service": "queue.localhost", "jid": "etl@localhost", "password": "s3cret"}


def refusal(**options):
    with pytest.raises(OptionError) as caught:
        settings(options)
    return str(caught.value)


def test_three_options_are_enough_and_the_rest_has_defaults():
    found = settings(LEAST)
    assert (found.service, found.jid, found.node, found.host) == (
        "queue.localhost",
        "etl@localhost",
        None,
        None,
    )
    assert (found.port, found.tls, found.max_in_flight) == (5222, "required", 256)
    assert (found.progress_timeout, found.retries, found.backoff) == (30, 5, Backoff(0.5, 30))
    assert (found.ignore_extra_columns, found.max_rate) == (False, None)
    assert (found.visibility, found.on_replay, found.txn_app, found.txn_version) == (
        "commit",
        "skip",
        None,
        None,
    )
    assert (found.payload_format, found.on_error, found.max_errors) == ("auto", "fail", 0)


def test_names_and_words_are_case_insensitive():
    found = settings(
        {"SERVICE": "q", "Jid": "a@b", "PassWord": "x", "TLS": "OFF", "maxinflight": "8"}
    )
    assert (found.service, found.tls, found.max_in_flight) == ("q", "off", 8)


def test_an_unknown_option_is_refused_with_the_nearest_name():
    assert refusal(**LEAST, maxInFlght="8") == (
        "option 'maxInFlght' is unknown; did you mean 'maxInFlight'?"
    )
    assert refusal(**LEAST, zzz="8").startswith("option 'zzz' is unknown; the options are service,")


@pytest.mark.parametrize("name", ["service", "jid"])
def test_a_missing_option_is_named_with_its_meaning(name):
    message = refusal(**{key: value for key, value in LEAST.items() if key != name})
    assert message.startswith(f"option {name} is missing: the ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service", " "),
        ("jid", "localhost"),
        ("jid", "etl@localhost/fixed"),
        ("port", "0"),
        ("port", "x"),
        ("tls", "maybe"),
        ("maxInFlight", "0"),
        ("progressTimeout", "inf"),
        ("progressTimeout", "nan"),
        ("progressTimeout", "-1"),
        ("retries", "-1"),
        ("retryBackoff", "5"),
        ("retryBackoff", "9-3"),
        ("extraColumns", "drop"),
        ("visibility", "never"),
        ("txnAppId", ""),
        ("txnVersion", "-1"),
        ("txnVersion", "today"),
        ("onReplay", "again"),
        ("payloadFormat", "avro"),
        ("onError", "ignore"),
        ("maxErrors", "-1"),
        ("maxRatePerTask", "0"),
        ("maxRatePerTask", "nan"),
        ("itemsPerRequest", "1001"),
        ("allowPurge", "true"),
    ],
)
def test_a_wrong_value_is_named_with_what_the_option_takes(name, value):
    message = refusal(**LEAST | {name: value})
    assert message.startswith(f"option {name}: {value!r} cannot be used; it takes: ")


def test_dead_letters_and_their_node_come_together():
    assert refusal(**LEAST, onError="deadletter") == (
        "option deadLetterNode is missing: onError=deadletter needs a node."
    )
    assert refusal(**LEAST, deadLetterNode="bad", onError="skip") == (
        "option deadLetterNode has no effect without onError=deadletter."
    )
    found = settings(LEAST | {"onError": "DeadLetter", "deadLetterNode": "bad", "maxErrors": "3"})
    assert (found.on_error, found.dead_letter_node, found.max_errors) == ("deadletter", "bad", 3)


def test_a_content_type_is_one_and_takes_the_place_of_a_format():
    assert settings(LEAST | {"contentType": "image/png"}).content_type == "image/png"
    for wrong in ("", "image/png\x00"):
        assert "option contentType" in refusal(**LEAST, contentType=wrong)
    assert refusal(**LEAST, contentType="image/png", payloadFormat="json") == (
        "option payloadFormat has no effect with contentType: give one of them."
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "none"), ({"password": "a", "passwordEnv": "B"}, "password and passwordEnv")],
)
def test_exactly_one_way_to_the_password_is_given(given, found):
    message = refusal(service="q", jid="a@b", **given)
    assert message == (
        f"options password, passwordFile, passwordEnv: give exactly one of them (found {found})."
    )


def test_an_empty_password_is_refused():
    assert "an empty value" in refusal(**LEAST | {"password": ""})


def test_the_password_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "pw").write_text("of file \n")
    monkeypatch.setenv("ETL_PW", "of environment")
    of = {"service": "q", "jid": "a@b"}
    assert settings(of | {"password": "plain"}).secret.read() == "plain"
    assert settings(of | {"passwordFile": str(tmp_path / "pw")}).secret.read() == "of file "
    assert settings(of | {"passwordEnv": "ETL_PW"}).secret.read() == "of environment"


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("passwordFile", "/nowhere/pw", "/nowhere/pw cannot be read (No such file or directory)"),
        ("passwordFile", "/dev/null", "/dev/null is empty"),
        ("passwordEnv", "NOT_SET_ANYWHERE", "the variable NOT_SET_ANYWHERE is not set here"),
    ],
)
def test_a_password_that_is_not_there_is_one_sentence(option, value, reason):
    secret = settings({"service": "q", "jid": "a@b", option: value}).secret
    with pytest.raises(OptionError) as caught:
        secret.read()
    assert str(caught.value).startswith(f"option {option}: {reason}")


def test_the_password_is_not_in_what_is_shown_and_settings_can_be_pickled():
    found = settings(LEAST)
    assert "s3cret" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_docstring_of_the_source_has_each_option_with_its_default():
    text = PubqueueDataSource.__doc__.split("option of a read")[0]
    rows = [line.split() for line in text.splitlines() if "``" in line]
    assert [row[0].strip("`") for row in rows] == [option.name for option in OPTIONS]
    for row, option in zip(rows, OPTIONS, strict=True):
        assert option.default in (None, row[1])


def test_the_readme_has_each_option_with_its_default():
    readme = (Path(__file__).parents[2] / "spark" / "README.md").read_text()
    section = readme.split("## Options")[1].split("\n## ")[0]
    rows = [
        [c.strip(" `") for c in line.split("|")] for line in section.splitlines() if "| `" in line
    ]
    assert [row[1] for row in rows] == [option.name for option in OPTIONS]
    for row, option in zip(rows, OPTIONS, strict=True):
        assert option.default in (None, row[2])
