"""What is printed for programs."""

import json

from pubqueue.cli import output
from pubqueue.operations.model import Cell, Column


def test_json_is_one_line_whatever_stands_in_it(capsys):
    columns = (Column("at", "At", Cell.SINCE), Column("names", "Names", Cell.NAMES))
    output.write_json(output.as_json({"at": 1_001, "names": ("a\nb", "ä")}, columns))
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"at": "1970-01-01T00:00:01.001Z", "names": ["a\nb", "ä"]}
