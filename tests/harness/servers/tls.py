"""A Prosody with a certificate, for clients that do not log in without TLS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pubqueue_demo.prosody import Prosody


async def certify(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate for `name` that is its own authority; return its key and itself."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
    names = f"-subj /CN={name} -addext subjectAltName=DNS:{name} -keyout {key} -out {certificate}"
    made = await asyncio.create_subprocess_exec(
        *f"{command} {names}".split(), stderr=asyncio.subprocess.PIPE
    )
    _, said = await made.communicate()
    assert made.returncode == 0, said
    return key, certificate


async def secure(server: Prosody, more: str = "") -> Path:
    """Start a Prosody that has the module tls anew with a certificate, and more settings; return that."""
    key, certificate = await certify(server.folder, server.domain)
    config = server.folder / "prosody.cfg.lua"
    identity = f'ssl = {{ key = "{key}", certificate = "{certificate}" }}\n'
    config.write_text(identity + more + config.read_text())
    await server.restart()
    return certificate
