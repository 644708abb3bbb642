"""Errors keep facts: what they are about is an attribute, and nobody has to read their sentence for it."""

import pytest
from harness.batches.facts import ANN, JOBS

from pubqueue.admin.session import OperationRefused
from pubqueue.cli.publish import BadLineError
from pubqueue.cli.worker import TargetError
from pubqueue.cli.worker import load as load_target
from pubqueue.config.loading import BadVariableError, given, load
from pubqueue.config.settings import Settings
from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.ports import StaleError, StoreError
from pubqueue.engine.working_set import WorkingSet
from pubqueue.faces.checks import ConfigError
from pubqueue.model import changes as c

START = "jid = 'q'\nsecret = 'a'\n"


def from_file(tmp_path, text, variables=None, flags=None):
    path = tmp_path / "pubqueue.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(path, flags or {}, variables or {})
    return path, refused.value


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("secret = 'a'", "jid", None),
        ("jid = 'a@q'\nsecret = 'a'", "jid", "a@q"),
        ("jid = 'q'\nsecret_file = '/dev/null'", "secret_file", None),
        (START + "server = 'q'", "server", "q"),
        (START + "http = 'q'", "http", "q"),
        (START + "store = 'q'", "store", "q"),
        (START + "store = 'mysql://me:hidden@q/x'", "store", "mysql://me:...@q/x"),
        (START + "log_level = 'loud'", "log_level", "loud"),
        (START + "log_format = 'xml'", "log_format", "xml"),
        (START + "admins = ['a@b/c']", "admins", "a@b/c"),
        (START + "[limits.accounts.'a@b/c']\nitems = 1", "limits.accounts", "a@b/c"),
        (START + "[[node]]\nname = 'n'\nowners = ['a@b/c']", "node", "a@b/c"),
        (START + "[[node]]\nname = 'n'\n[[node]]\nname = 'n'", "node", "n"),
        (START + "http_proxies = ['proxy']", "http_proxies", None),
        (START + "[[user]]\nname = 'etl'\npassword = 'hidden'", "user", "etl"),
    ],
)
def test_an_error_of_the_configuration_names_its_key(tmp_path, text, key, value):
    _, refused = from_file(tmp_path, text)
    assert (refused.key, refused.value) == (key, value)
    assert "hidden" not in str(vars(refused))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (START + "colour = 'red'", "colour"),
        (START + "[transactions]\nitem = 4", "transactions.item"),
        (START + "[transactions]\nitems = 'x'", "transactions.items"),
        (START + "node_creation = 'me'", "node_creation"),
        ("nothing", ""),
    ],
)
def test_of_a_file_that_does_not_fit_the_error_has_file_and_key(tmp_path, text, key):
    path, refused = from_file(tmp_path, text)
    assert (refused.key, refused.source) == (key, str(path))


def test_of_a_variable_that_does_not_fit_the_error_has_variable_and_key(tmp_path):
    variables = {"PUBQUEUE_TRANSACTIONS_ITEMS": "many"}
    with pytest.raises(BadVariableError) as bad:
        given(Settings, variables)
    assert (bad.value.variable, bad.value.key) == (*variables, "transactions.items")
    _, refused = from_file(tmp_path, START, variables)
    assert (refused.key, refused.source) == ("transactions.items", *variables)


@pytest.mark.parametrize(
    ("change", "kind", "key"),
    [
        (c.DeleteNode(JOBS), "node", JOBS),
        (c.EndSubscriptions(JOBS, (ANN,)), "node", JOBS),
    ],
)
def test_a_stale_row_is_reported_by_kind_and_key(change, kind, key):
    changes = ChangeApplier(WorkingSet(), lambda _jid: True)
    with pytest.raises(StaleError) as stale:
        changes.make(None, [change])
    assert (stale.value.kind, stale.value.key) == (kind, key)
    assert isinstance(stale.value, StoreError)


def test_errors_of_the_command_line_carry_their_facts():
    refused = OperationRefused("no.", "dead", node="jobs", condition="not-acceptable")
    assert (refused.operation, refused.node, refused.condition) == (
        "dead",
        "jobs",
        "not-acceptable",
    )
    assert refused.wrongly
    assert not OperationRefused("no.", "dead", condition="forbidden").wrongly
    line = BadLineError(2, 7, "line 7 is none.")
    assert (line.code, line.line, str(line)) == (2, 7, "line 7 is none")
    with pytest.raises(TargetError) as none:
        load_target("jobs")
    assert none.value.target == "jobs"
    with pytest.raises(TargetError) as missing:
        load_target("there_is_none.such:work")
    assert missing.value.target == "there_is_none.such"
