"""Shortcuts for work that every test repeats."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from types import CodeType, MethodType
from typing import Any, ClassVar

from flask import Flask
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from werkzeug.routing import Rule

from integration.core import clock, retry_delays
from integration.sqlite import migrations
from integration.sqlite.migrations import Step

MEMORY = "/dev/shm"
GARBAGE_THRESHOLD = 10_000
"""Allocations between collections of garbage. The default of Python 3.11 is 700."""
ENOUGH = 2 * 10**9
"""Free bytes required in MEMORY. A test run needs far less."""


def install() -> None:
    """Install all shortcuts in this process. Call it once.

    Started processes inherit the environment variables only.
    """
    collect_garbage_rarely()
    keep_bytecode()
    keep_folders_in_memory()
    share_schemas()
    share_templates()
    share_routes()
    retry_at_once()


def collect_garbage_rarely() -> None:
    """Collect no garbage before `freeze_modules`, and later after more allocations than usual.

    Imports and the collection of tests allocate objects that stay.
    """
    gc.disable()
    gc.set_threshold(GARBAGE_THRESHOLD)


def keep_bytecode() -> None:
    """Write compiled modules even if PYTHONDONTWRITEBYTECODE is set.

    Otherwise every worker and started process compiles all modules, which takes longer than the rest of its
    start.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def keep_folders_in_memory() -> None:
    """Create temporary folders of tests in memory, where syncs take no time."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def share_schemas() -> None:
    """Create databases as copies of the first of their kind.

    Creating a schema takes hundreds of statements.
    """
    prepare = migrations.migrate
    kept: dict[str, sqlite3.Connection] = {}

    def copied(connection: sqlite3.Connection, name: str, steps: Mapping[str, Step], create: Step) -> None:
        of_product = create.__module__.startswith("integration.")
        fresh = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
        if of_product and fresh and name in kept:
            kept[name].backup(connection)
            if name == "mirror.db":
                # As for a new file: tests move the clock.
                for key, value in (("epoch", secrets.token_hex(8)), ("events since", clock.utc_text())):
                    connection.execute("UPDATE _meta SET value = ? WHERE key = ?", (value, key))
            return
        prepare(connection, name, steps, create)
        if of_product and fresh:
            first = sqlite3.connect(":memory:", check_same_thread=False)
            connection.backup(first)
            kept[name] = first

    migrations.migrate = copied


def freeze_modules() -> None:
    """Exclude imported modules and collected tests from garbage collection.

    Scanning them takes a twelfth of the time of a test run.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


class Templates(BytecodeCache):
    """Compiled templates, shared by all applications of the process."""

    def __init__(self) -> None:
        self._kept: dict[str, CodeType] = {}

    def get_bucket(self, environment: Environment, name: str, filename: str | None, source: str) -> Bucket:
        # The compiled code also depends on these options: a missing filter is compiled into an error.
        options = (environment.trim_blocks, environment.lstrip_blocks, sorted(environment.filters))
        bucket = Bucket(environment, repr((name, filename, source, options)), "")
        bucket.code = self._kept.get(bucket.key)
        return bucket

    def set_bucket(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._kept[bucket.key] = bucket.code


def share_templates() -> None:
    """Share compiled templates between applications.

    Flask compiles them for each application, and most tests of pages create one.
    """
    Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": Templates()}


class SharedRule(Rule):
    """Route that takes over what an equal route has compiled before."""

    compiled: ClassVar[dict[tuple[object, ...], tuple[set[str], dict[str, Any], dict[str, Any]]]] = {}
    """By all that determines the result: arguments, values and methods of the first rule."""

    def compile(self) -> None:
        assert self.map is not None
        key = (
            self.rule,
            self.host if self.map.host_matching else self.subdomain,
            self.merge_slashes,
            repr(self.defaults),
            tuple(self.map.converters.items()),
        )
        if key not in self.compiled:
            super().compile()
            result = {name: value for name, value in vars(self).items() if name.startswith("_")}
            methods = {
                name: value.__func__ for name, value in result.items() if isinstance(value, MethodType)
            }
            values = {name: value for name, value in result.items() if name not in methods}
            self.compiled[key] = (self.arguments, values, methods)
            return
        arguments, values, methods = self.compiled[key]
        self.arguments |= arguments
        vars(self).update(values)
        for name, function in methods.items():
            setattr(self, name, MethodType(function, self))


def share_routes() -> None:
    """Share compiled routes between applications.

    Compiling those of an application takes 80 ms of CPU time.
    """
    Flask.url_rule_class = SharedRule


def retry_at_once() -> None:
    """Retry requests to the platform after 1 ms."""
    retry_delays.REQUESTS = (0.001,)
