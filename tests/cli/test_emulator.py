"""`pubqueue emulator`: where it listens, what it keeps, and what it says when it cannot."""

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from harness.patience import TIMEOUT

from pubqueue.cli import main
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.loopback import free_ports

PUBQUEUE = Path(sys.executable).with_name("pubqueue")
TOPIC = "projects/shop/topics/orders"


@contextmanager
def running(folder, port, *words):
    process = subprocess.Popen(
        [PUBQUEUE, "emulator", "--port", f"{port}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(folder), "PATH": "/usr/bin:/bin"},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process, number=signal.SIGTERM):
    """End it, and return its exit code and what it has printed."""
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out + err


def call(port, name, request, answer):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        method = channel.unary_unary(
            f"/google.pubsub.v1.Publisher/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return method(request, timeout=TIMEOUT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_the_line_to_paste_and_leaves_nothing(tmp_path, number):
    (port,) = free_ports(1)
    with running(tmp_path, port) as process:
        assert process.stdout.readline() == f"export PUBSUB_EMULATOR_HOST=127.0.0.1:{port}\n"
        assert len([*tmp_path.glob("pubqueue-emulator-*/pubqueue.db")]) == 1
        call(port, "CreateTopic", m.Topic(name=TOPIC), m.Topic)
        assert ended(process, number) == (0, "")
    assert [*tmp_path.iterdir()] == []


def test_a_data_folder_keeps_what_clients_made(tmp_path):
    (port,) = free_ports(1)
    data = tmp_path / "new" / "data"
    with running(tmp_path, port, "--data-dir", data) as process:
        process.stdout.readline()
        call(port, "CreateTopic", m.Topic(name=TOPIC), m.Topic)
    with running(tmp_path, port, "--data-dir", data) as process:
        process.stdout.readline()
        asked = m.ListTopicsRequest(project="projects/shop")
        listed = call(port, "ListTopics", asked, m.ListTopicsResponse)
        assert [topic.name for topic in listed.topics] == [TOPIC]
        assert ended(process) == (0, "")
    assert (data / "pubqueue.db").exists()


def test_a_port_in_use_is_one_sentence(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with running(tmp_path, port) as process:
            out, err = process.communicate(timeout=TIMEOUT)
    sentence = f"pubqueue: grpc: 127.0.0.1:{port} cannot be listened on (Address already in use)\n"
    assert (out, err) == ("", sentence)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("words", [("--port", "0"), ("--port", "65536"), ("--port", "http")])
def test_a_port_that_is_none_is_a_usage_error(words):
    done = CliRunner().invoke(main, ["emulator", *words])
    assert (done.exit_code, "Invalid value for '--port'" in done.stderr) == (2, True)


def test_a_folder_that_cannot_be_used_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "data"
    done = CliRunner().invoke(main, ["emulator", "--data-dir", str(folder)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"pubqueue: {folder} cannot be used (Not a directory)\n"
