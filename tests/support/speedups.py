"""What costs every test the same and proves nothing is done once, or not at all."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType

from flask import Flask
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from integration.platform_api import retry
from integration.sqlite import migrations
from integration.sqlite.migrations import Step
from tests.support import fork_server

HERE = Path(__file__).parents[1]
MEMORY = "/dev/shm"
ENOUGH = 2 * 10**9
"""Bytes: what a run leaves behind, many times over."""


def install() -> None:
    """For this process and those it starts. Once."""
    keep_bytecode()
    keep_folders_in_memory()
    share_schemas()
    share_templates()
    fork_server.enable()
    retry_at_once()


def keep_bytecode() -> None:
    """Keep compiled modules, wherever PYTHONDONTWRITEBYTECODE is set, too.

    Every worker and started process would otherwise compile all of ours anew, which takes longer than the
    rest of its start.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def compile_tests(workers: int) -> None:
    """Before the workers of a first run begin: each would compile every test and all of ours for itself.

    The halves are collected by two processes, which is what compiles them.
    """
    modules = sorted(HERE.rglob("test_*.py"))
    if workers < 2 or all(_is_compiled(module) for module in modules):
        return
    halves = (modules[::2], modules[1::2])
    command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-qq"]
    collecting = [
        subprocess.Popen([*command, *map(str, half)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for half in halves
    ]
    for one in collecting:
        one.wait()  # What can't be collected is told by the run itself.


def _is_compiled(module: Path) -> bool:
    compiled = module.parent.glob(f"__pycache__/{module.stem}.{sys.implementation.cache_tag}-pytest-*.pyc")
    return any(one.stat().st_mtime >= module.stat().st_mtime for one in compiled)


def keep_folders_in_memory() -> None:
    """What a test writes need not outlive the machine: without a disk to wait for, a commit costs nothing."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def share_schemas() -> None:
    """A new database gets its tables as a copy of the first of its kind: hundreds of statements otherwise."""
    prepare = migrations.migrate
    kept: dict[str, sqlite3.Connection] = {}

    def copied(connection: sqlite3.Connection, name: str, steps: Mapping[str, Step], create: Step) -> None:
        ours = create.__module__.startswith("integration.")
        fresh = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
        if ours and fresh and name in kept:
            kept[name].backup(connection)
            if name == "mirror.db":
                connection.execute("UPDATE _meta SET value = ? WHERE key = 'epoch'", (secrets.token_hex(8),))
            return
        prepare(connection, name, steps, create)
        if ours and fresh:
            first = sqlite3.connect(":memory:", check_same_thread=False)
            connection.backup(first)
            kept[name] = first

    migrations.migrate = copied


def leave_modules_alone() -> None:
    """What was imported and collected stays: looking through it for garbage takes a twelfth of the time."""
    gc.collect()
    gc.freeze()


class Templates(BytecodeCache):
    """Templates as an application like this one compiled them before."""

    def __init__(self) -> None:
        self._kept: dict[str, CodeType] = {}

    def get_bucket(self, environment: Environment, name: str, filename: str | None, source: str) -> Bucket:
        # What compiling depends on beside the source: a filter that is missing is compiled into an error.
        like = (environment.trim_blocks, environment.lstrip_blocks, sorted(environment.filters))
        bucket = Bucket(environment, repr((name, filename, source, like)), "")
        bucket.code = self._kept.get(bucket.key)
        return bucket

    def set_bucket(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._kept[bucket.key] = bucket.code


def share_templates() -> None:
    """Each application has a cache of its own, and a test that looks at a page mostly has one of its own."""
    Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": Templates()}


def retry_at_once() -> None:
    """A second try of a request to the platform waits 1 ms."""
    retry.GAPS = (0.001,)
