"""What costs every test the same and proves nothing is done once, or not at all."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from flask import Flask
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket
from werkzeug.routing import Rule


def install() -> None:
    """For this process and those it starts. Once."""
    keep_bytecode()
    share_templates()
    build_urls_when_asked()


def keep_bytecode() -> None:
    """Keep compiled modules, wherever PYTHONDONTWRITEBYTECODE is set, too.

    Every worker and started process would otherwise compile all of ours anew, which takes longer than the
    rest of its start.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


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


def build_urls_when_asked() -> None:
    """Compile what builds the URLs of a rule when the first is built.

    Werkzeug does so at once, twice for each rule of each application: three quarters of what a simulator
    costs, and it never builds any.
    """
    compile_builder = Rule._compile_builder

    def when_asked(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compiled: Callable[..., tuple[str, str]] | None = None

        def build(bound: Rule, **values: Any) -> tuple[str, str]:
            nonlocal compiled
            compiled = compiled or compile_builder(rule, append_unknown)
            return compiled(bound, **values)

        return build

    Rule._compile_builder = when_asked  # type: ignore[method-assign]
