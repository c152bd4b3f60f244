"""Commands sent by the command line have handlers in the running process."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from integration import cli, factory
from integration.core.commands import SOCKET_FILE, find_handler, registry
from integration.mirror.schema import open_mirror
from integration.sqlite.transaction import Transaction

COMMAND_LINES = (
    "user add ann@example.com --role agent",
    "user passwd ann@example.com",
    "user change ann@example.com --role viewer",
    "user remove ann@example.com",
    "user remove-second-factor ann@example.com",
    "key add crm --scope read",
    "key rotate crm",
    "key revoke crm",
    "sync cdrs",
    "sync undo-deletions cdrs",
    "replay --failed",
    "verify --coverage cdrs",
    "verify --media",
    "verify --repair",
    "erase +447700900123 --yes",
    "hold +447700900123 --reason dispute",
    "hold +447700900123 --release",
    "export contacts",
    "events add crm http://127.0.0.1:9/ --kinds call.ended",
    "events test crm",
    "events replay crm --from 2026-03-01",
    "events rotate crm",
    "events enable crm",
    "events skip crm",
    "events remove crm",
)


@pytest.fixture
def sent_names(tmp_path: Path) -> Iterator[list[str]]:
    """Names of the commands that a running process received and rejected."""
    names: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / SOCKET_FILE))
        listener.listen()

        def refuse() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, connection.makefile("rb") as lines:
                    names.append(json.loads(lines.readline())["command"])
                    connection.sendall(b'{"taken": true}\n{"error": ["refused"], "exit": 1}\n')

        threading.Thread(target=refuse, daemon=True).start()
        yield names
        listener.shutdown(socket.SHUT_RDWR)


def store_damaged_record(tx: Transaction) -> None:
    """Store a record for `verify --repair`, which sends a command only if there is a finding."""
    tx.execute(
        "INSERT INTO cdrs (id, _doc, _first_seen, _last_seen, _source)"
        " VALUES (1, '{', '2026-03-01 12:00:00', '2026-03-01 12:00:00', 'sync')"
    )


def test_each_sent_command_has_a_handler_and_each_handler_is_used(
    sent_names: list[str], tmp_path: Path
) -> None:
    mirror = open_mirror(tmp_path / "mirror.db")
    mirror.write(store_damaged_record)
    mirror.close()
    config = tmp_path / "config.toml"
    config.write_text(
        '[platform]\nbase_url = "http://127.0.0.1:9/v1.2"\nuser_id = "100001"\napi_key = "k"\n'
        f'[storage]\ndata_dir = "{tmp_path}"\n'
    )
    for words in COMMAND_LINES:
        before = len(sent_names)
        done = CliRunner().invoke(cli.group, [*words.split(), "--config", str(config)])
        assert "refused" in f"{done.output}{done.exception}", words
        assert len(sent_names) == before + 1, words
    modules = {module.__name__ for module in factory.COMMAND_MODULES}
    handlers = {handler for handler in registry().values() if handler.__module__ in modules}
    assert {find_handler(name) for name in sent_names} == handlers


def test_the_list_of_command_lines_covers_each_file_that_sends_commands() -> None:
    files = Path(cli.__file__).parent.glob("*.py")
    senders = {
        path.stem
        for path in files
        if re.search(r"run_in_writer\(|run_command_with\(", path.read_text()) and path.stem != "console"
    }
    assert senders == {words.split()[0] for words in COMMAND_LINES}
