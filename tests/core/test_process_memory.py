"""Limits of glibc after a restart of the program, and other C libraries."""

from __future__ import annotations

import ctypes
import gc
import platform
import weakref
from pathlib import Path

import pytest

from integration.core import process_memory
from tests.support.harness import Product

glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these limits")


@glibc_only
@pytest.mark.exhaustive
def test_serve_and_its_worker_run_with_the_limits(tmp_path: Path) -> None:
    """With a variable of the interpreter the process is a new one instead of a fork."""
    product = Product(tmp_path / "data", environment={"PYTHONDONTWRITEBYTECODE": "1"})
    try:
        for pid in (product.pid, product.worker):
            assert b"glibc.malloc.tcache_count=0" in Path(f"/proc/{pid}/environ").read_bytes()
    finally:
        assert product.stop() == 0


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    process_memory.restart_with_limits()
    process_memory.trim()


class Node:
    """Object that refers to itself."""

    def __init__(self) -> None:
        self.myself = self


def test_a_release_frees_objects_that_refer_to_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    trims: list[int] = []
    monkeypatch.setattr(process_memory, "trim", lambda: trims.append(1))
    unused = weakref.ref(Node())
    gc.disable()
    try:
        process_memory.release()
    finally:
        gc.enable()
    assert unused() is None
    assert trims == [1]
