"""What docs/how-to/outbox.md says, done: its files, in a folder, as its reader has them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import httpx
import pytest
from harness.patience import TIMEOUT, until

from pubqueue.testing import Service

PAGE = Path(__file__).parents[3] / "docs/how-to/outbox.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXTS = [text for language, text in BLOCK.findall(PAGE.read_text()) if language == "python"]
FILES = {text.split("\n", 1)[0].removeprefix("# "): text for text in TEXTS if text[0] == "#"}

SETTINGS = """
SECRET_KEY = "test"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["testserver"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
"""
URLS = """
from django.urls import path
from shop.views import book

urlpatterns = [path("book/<flight>", book)]
"""
PROGRAM = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("error")
sys.path.insert(0, ".")
from pathlib import Path
import django
from django.core.management import call_command
from pubqueue.testing import Service

django.setup()
migration = Path("shop/migrations/0002_outbox.py")
later = migration.rename("later")
call_command("makemigrations", "shop", verbosity=0)
later.rename(migration)
call_command("migrate", verbosity=0)
from django.test import Client
answer = Client().get("/book/LH400").json()

def stop():
    while not service.items("bookings"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)

with Service() as service:
    service.create("bookings")
    os.environ |= {"PUBQUEUE_URL": service.url("etl"), "PUBQUEUE_PASSWORD": service.password}
    threading.Thread(target=stop, daemon=True).start()
    call_command("relay")
    (item,) = service.items("bookings")
    print(item.id == answer["item"], item.payload.decode())
"""


def ran(*words, folder, **environment):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def service():
    with Service() as running:
        running.create("bookings")
        yield running


def test_each_block_is_run():
    assert len(TEXTS) == len(FILES) + 1, "all but the first are files"
    assert set(FILES) == {
        *(f"shop/{name}.py" for name in ("models", "outbox", "views", "migrations/0002_outbox")),
        "shop/management/commands/relay.py",
        "shop.py",
        "test_shop.py",
    }


def test_the_first_program(tmp_path):
    printed = ran("-Ic", TEXTS[0], folder=tmp_path)
    assert re.fullmatch(r"[-0-9a-f]{36}\n", printed)


def test_django(tmp_path):
    for name, text in FILES.items():
        if name.startswith("shop/"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            for folder in path.relative_to(tmp_path).parents[:-1]:
                (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "urls.py").write_text(URLS)
    printed = ran("-Ic", PROGRAM, folder=tmp_path, DJANGO_SETTINGS_MODULE="settings")
    assert printed == 'True <json xmlns=\'urn:xmpp:json:0\'>{"flight":"LH400","order":1}</json>\n'


async def test_fastapi(tmp_path, monkeypatch, service):
    monkeypatch.setenv("DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    monkeypatch.setenv("PUBQUEUE_URL", service.url("etl"))
    monkeypatch.setenv("PUBQUEUE_PASSWORD", service.password)
    (tmp_path / "shop.py").write_text(FILES["shop.py"])
    app = run_path(str(tmp_path / "shop.py"))["app"]
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client,
    ):
        answer = (await client.post("/orders?flight=LH400")).json()
        await until(lambda: [item.id for item in service.items("bookings")] == [answer["item"]])
    assert answer["order"] == 1


def test_the_test(tmp_path, service):
    (tmp_path / "test_shop.py").write_text(FILES["test_shop.py"])
    run_path(str(tmp_path / "test_shop.py"))["test_a_booking_is_published"](service, tmp_path)
