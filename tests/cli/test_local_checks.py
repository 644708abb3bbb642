"""What `pubqueue doctor --config` finds of the places where gRPC and the same in JSON are to be served."""

import socket
from pathlib import Path

import pytest

from pubqueue.cli import local_checks
from pubqueue.cli.output import Level, bad, good


def found(folder, text):
    path = Path(folder) / "pubqueue.toml"
    path.write_text(
        f"jid = 'queue.example.org'\nserver = ''\nstore = 'sqlite:///{folder}/q.db'\n{text}"
    )
    return list(local_checks.local_findings(path))


@pytest.fixture
def open_place():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_place():
    with (
        socket.socket() as taken
    ):  # bound and not listening: nobody else gets the port, and nobody answers there
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_places_of_grpc_and_json_are_tried(tmp_path, open_place, closed_place):
    text = f"[grpc]\nlisten = '{open_place}'\njson = '{open_place}, {closed_place}'"
    assert [one for one in found(tmp_path, text) if one.about in {"gRPC", "JSON"}] == [
        good("gRPC", f"{open_place} can be reached"),
        good("JSON", f"{open_place} can be reached"),
        bad("JSON", f"{closed_place} cannot be reached: Connection refused"),
    ]


def test_an_address_that_is_none_is_found_in_the_configuration(tmp_path):
    (finding,) = found(tmp_path, "[grpc]\njson = 'here'")
    assert (finding.level, finding.about) == (Level.BAD, "configuration")
    assert finding.says.startswith("grpc.json must be host:port or a port")


def test_without_the_table_nothing_is_tried(tmp_path):
    assert not {one.about for one in found(tmp_path, "")} & {"gRPC", "JSON"}
