"""Minimal product behind the real supervisor, for tests of processes.

`python -m tests.server.stub_product DATA_DIR PORT [MODE [TLS_FOLDER]]` serves it. In the MODE `refuses` the
start fails, in the MODE `lingers` it does not end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from integration.cli import exit_on_error
from integration.core import logs
from integration.core.errors import SwitchroomError
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.server import supervisor
from integration.settings.model import Settings
from tests.server import counting  # noqa: F401  registers the commands


class StubProduct:
    def __init__(self, settings: Settings) -> None:
        self.folder = settings.storage.data_dir
        self.health = Health()
        self.scheduler = Scheduler(self.health)
        self.closing = threading.Event()

    @property
    def context(self) -> StubProduct:
        return self

    def start(self) -> None:
        self.scheduler.start()

    def describe_start(self) -> list[str]:
        return []

    def close_streams(self) -> None:
        self.closing.set()

    def stop(self) -> None:
        self.scheduler.stop(1)
        (self.folder / "stopping").touch()
        while (self.folder / "prolonged-stop").exists():
            threading.Event().wait(0.05)
        (self.folder / "stopped-cleanly").write_text(str(os.getpid()))

    def application(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/stream":
            start("200 OK", [("Content-Type", "text/event-stream")])
            return self.stream()
        if (self.folder / "blocked").exists():
            threading.Event().wait(60)
        if environ["PATH_INFO"] == "/hang":
            (self.folder / "requested").touch()
            threading.Event().wait(60)
        if environ["PATH_INFO"] == "/stop":
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        if environ["PATH_INFO"] == "/slow":
            (self.folder / "requested").touch()
            self.closing.wait(60)
            threading.Event().wait(0.5)
        start("200 OK", [("Content-Type", "text/plain")])
        secrets = [name for name in environ if name.startswith("SWITCHROOM_")]
        return [f"{os.getpid()} {os.getppid()} {secrets}".encode()]

    def stream(self) -> Iterator[bytes]:
        yield b": hello\n\n"
        while not self.closing.wait(0.05):
            yield b": still here\n\n"


def build(settings: Settings, **_: object) -> StubProduct:
    return StubProduct(settings)


def refuses(settings: Settings, **_: object) -> StubProduct:
    raise SwitchroomError("mirror.db was written by a newer version")


def lingers(settings: Settings, **_: object) -> StubProduct:
    (settings.storage.data_dir / "lingering").touch()
    threading.Event().wait(60)
    return StubProduct(settings)


def settings_for(data_dir: str | Path, port: int | str = 0, **server: Any) -> Settings:
    return Settings.model_validate(
        {
            "platform": {"base_url": "http://127.0.0.1:9/v1.2", "user_id": "100001", "api_key": "k"},
            "storage": {"data_dir": data_dir},
            "server": {"port": int(port), **server},
        }
    )


@exit_on_error
def main(data_dir: str, port: str, mode: str = "build", tls_folder: str | None = None) -> None:
    logs.configure_logging()
    tls = {"tls_cert": f"{tls_folder}/cert.pem", "tls_key": f"{tls_folder}/key.pem"} if tls_folder else {}
    settings = settings_for(data_dir, port, **tls)
    supervisor.serve(
        settings,
        lambda line: print(line, file=sys.stderr, flush=True),
        origin="environment variables",
        factory=f"tests.server.stub_product:{mode}",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
