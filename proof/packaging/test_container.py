"""The container, as far as that can be told without a registry of images: each instruction and name in it is what it should be."""

import json
import re
import shlex
import subprocess

import msgspec
import pytest
import yaml
from harness.documents.documented import ROOT

from pubqueue.cli import COMMANDS
from pubqueue.config.loading import ENVIRONMENT, load

FOLDER = ROOT / "packaging" / "container"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
KNOWN = {
    "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "VOLUME", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "CMD",
}  # fmt: skip
SERVICE_KEYS = {
    "image", "build", "restart", "ports", "volumes", "secrets", "networks", "depends_on", "environment",
    "stop_grace_period", "read_only", "tmpfs", "cap_drop", "security_opt",
}  # fmt: skip


def instructions():
    """Return each instruction with what is behind it."""
    text = (FOLDER / "Containerfile").read_text()
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith("#")]


def environment_of_image():
    (words,) = (rest for word, rest in instructions() if word == "ENV")
    return dict(one.split("=", 1) for one in shlex.split(words))


def test_its_instructions_are_known_and_its_images_have_a_version():
    assert {word for word, _ in instructions()} <= KNOWN
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    images += [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    # what is built in one stage is run in the other, with the same Python
    assert len({rest.split()[0] for word, rest in instructions() if word == "FROM"}) == 1
    for image in images:
        assert re.fullmatch(r"docker\.io/[a-z/]+:[0-9][a-z0-9.-]+", image), image


def test_what_is_copied_is_there():
    copied = [rest.split() for word, rest in instructions() if word == "COPY"]
    here = [words[:-1] for words in copied if not words[0].startswith("--from=")]
    assert all((ROOT / name).exists() for names in here for name in names)
    stages = {rest.rpartition(" AS ")[2] for word, rest in instructions() if " AS " in rest}
    others = {words[0].removeprefix("--from=") for words in copied} & stages
    assert others == stages


def test_it_is_not_run_by_root_and_starts_a_command_of_ours():
    last = dict(instructions())
    assert last["USER"] == "pubqueue"
    assert json.loads(last["ENTRYPOINT"]) == ["pubqueue"]
    assert json.loads(last["CMD"])[0] in COMMANDS
    order = [word for word, _ in instructions()]
    assert order.index("USER") > max(place for place, word in enumerate(order) if word == "RUN")


def test_its_probe_is_a_program_and_asks_where_the_service_listens():
    probe = dict(instructions())["HEALTHCHECK"]
    command = json.loads(probe.partition("CMD ")[2])
    compile(command[2], "probe", "exec")
    assert f"http://{environment_of_image()['PUBQUEUE_HTTP']}/healthz" in command[2]


def test_its_shell_commands_are_such():
    for word, rest in instructions():
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)


def test_the_service_of_compose_has_settings_that_can_be_served(tmp_path):
    given = COMPOSE["services"]["pubqueue"]["environment"]
    secret = tmp_path / "component"
    secret.write_text("hush\n")
    together = environment_of_image() | given
    ours = {name for name in together if name.startswith("PUBQUEUE_")}
    assert ours <= ENVIRONMENT.keys()
    settings = load(None, {}, together | {"PUBQUEUE_SECRET_FILE": str(secret)})
    assert settings.store == "sqlite:///var/lib/pubqueue/pubqueue.db"
    assert [node.name for node in settings.node] == ["jobs"]
    assert settings.address() == ("prosody", 5347)
    assert msgspec.to_builtins(settings)["jid"] == "queue.localhost"


def test_compose_names_only_what_it_has():
    assert COMPOSE.keys() == {"services", "networks", "volumes", "secrets"}
    for service in COMPOSE["services"].values():
        assert service.keys() <= SERVICE_KEYS
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys()
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        assert set(service["secrets"]) <= COMPOSE["secrets"].keys()
        for mounted in service["volumes"]:
            source, target, *_ = mounted.split(":")
            assert target.startswith("/")
            assert (FOLDER / source).is_file() if "/" in source else source in COMPOSE["volumes"]
    queue = COMPOSE["services"]["pubqueue"]
    build = queue["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    (volume,) = (rest for word, rest in instructions() if word == "VOLUME")
    assert queue["volumes"] == [f"queues:{volume}"]
    assert queue["environment"]["PUBQUEUE_SECRET_FILE"] == "/run/secrets/component"


@pytest.mark.e2e
def test_prosody_finds_nothing_wrong_with_its_settings(tmp_path):
    secret = tmp_path / "component"
    secret.write_text("hush\n")
    text = (FOLDER / "prosody.cfg.lua").read_text()
    assert "/run/secrets/component" in text
    for path, there in (
        ("/run/secrets/component", secret),
        ("/var/lib/prosody", tmp_path),
    ):
        text = text.replace(path, str(there))
    config = tmp_path / "prosody.cfg.lua"
    config.write_text(text)
    done = subprocess.run(
        ["prosodyctl", "--root", "--config", config, "check", "config"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All checks passed" in done.stdout, done.stdout


def test_the_locked_packages_are_those_that_the_service_needs():
    """`tools/service_lock` writes the file that the package and the container install from."""
    code = "import runpy; print(runpy.run_path('tools/service_lock')['lines'](), end='')"
    done = subprocess.run(
        [ROOT / ".venv/bin/python", "-I", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (ROOT / "packaging" / "requirements.lock").read_text()
