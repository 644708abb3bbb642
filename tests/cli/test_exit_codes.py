"""What a command that fails says, and what no terminal obeys."""

import pytest
from click.testing import CliRunner

from pubqueue.cli import main
from pubqueue.cli.exit_codes import plain


def test_what_would_control_a_terminal_is_written_out():
    assert plain("a\x1b[31mb\u202ec\nd") == "a\\x1b[31mb\\u202ec\nd"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["queus"], "there is no command queus; did you mean queues?"),
        (["node", "creat"], "there is no command creat; did you mean create?"),
        (["schedule", "lst"], "there is no command lst; did you mean list?"),
        (["frobnicate"], "there is no command frobnicate"),
    ],
)
def test_a_mistyped_command_is_answered_with_a_similar_one(words, sentence):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {sentence}\n")
