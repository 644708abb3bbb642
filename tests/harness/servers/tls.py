"""A Prosody with a certificate, for clients that do not log in without TLS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pubqueue_demo.prosody import Prosody


async def certify(folder: Path, name: str, more: str = "", days: int = 1) -> tuple[Path, Path]:
    """Make a certificate for `name`, with more in its subject, that is its own authority; return its key and itself."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    subject = f"/CN={name}/{more}" if more else f"/CN={name}"
    names = f"-days {days} -subj {subject} -addext subjectAltName=DNS:{name} -keyout {key} -out {certificate}"
    await openssl(f"{command} {names}")
    return key, certificate


async def expire(key: Path, certificate: Path) -> None:
    """Make it a certificate that expired yesterday."""
    await openssl(f"x509 -in {certificate} -days -1 -signkey {key} -out {certificate}.expired")
    certificate.with_name(f"{certificate.name}.expired").replace(certificate)


async def openssl(words: str) -> None:
    """Run a command of OpenSSL."""
    made = await asyncio.create_subprocess_exec(
        "openssl", *words.split(), stderr=asyncio.subprocess.PIPE
    )
    _, said = await made.communicate()
    assert made.returncode == 0, said


async def secure(server: Prosody, more: str = "") -> Path:
    """Restart a Prosody that has the module tls with a certificate, and more settings; return that."""
    key, certificate = await certify(server.folder, server.domain)
    config = server.folder / "prosody.cfg.lua"
    identity = f'ssl = {{ key = "{key}", certificate = "{certificate}" }}\n'
    config.write_text(identity + more + config.read_text())
    await server.restart()
    return certificate
