"""Variables that look like settings and are none are reported."""

import sys

from click.testing import CliRunner

from pubqueue.cli import main
from pubqueue.cli.unread import unread


def test_an_unknown_variable_is_reported():
    variables = {
        "PUBQUEUE_PASWORD": "x",
        "PUBQUEUE_STORRE": "x",
        "PUBQUEUE_FROB": "x",
        "PUBQUEUE_NODE_CREATION": "local",
        "PUBQUEUE_QUIET": "1",
        "PUBQUEUE_PORT_5347_TCP_ADDR": "10.0.0.1",
        "PUBQUEUE_SERVICE_HOST": "10.0.0.1",
    }
    result = CliRunner().invoke(main, ["completion", "bash"], env=variables)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "pubqueue: PUBQUEUE_FROB in the environment is not a setting of pubqueue",
        "pubqueue: PUBQUEUE_PASWORD in the environment is not a setting of pubqueue; did you mean PUBQUEUE_PASSWORD?",
        "pubqueue: PUBQUEUE_STORRE in the environment is not a setting of pubqueue; did you mean PUBQUEUE_STORE?",
    ]


def test_where_the_service_is_not_installed_only_clients_variables_are_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "pubqueue.config.loading", None)
    variables = {"PUBQUEUE_PASWORD": "x", "PUBQUEUE_LOG_LEVEL": "info"}
    assert list(unread(variables)) == [
        "PUBQUEUE_PASWORD in the environment is not a setting of pubqueue; did you mean PUBQUEUE_PASSWORD?"
    ]
