"""Limits of glibc after a restart of the program, and other C libraries."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys
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


def test_a_release_frees_objects_that_refer_to_each_other() -> None:
    unused = weakref.ref(Node())
    gc.disable()
    try:
        process_memory.MemoryRelease().run()
    finally:
        gc.enable()
    assert unused() is None


RELEASE = """
import ctypes, re, sys
from pathlib import Path
from integration.core import process_memory

def read_memory():
    text = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(re.search(r"^Anonymous:\\s+(\\d+)", text, re.MULTILINE)[1])

size, process_memory.BUSY_SHARE = int(sys.argv[1]), float(sys.argv[2])
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
blocks = [ctypes.c_void_p(libc.malloc(ctypes.c_size_t(8000))) for _ in range(size // 8000)]
# The last block of the arena stays in use, or glibc returns the others at once.
libc.malloc(ctypes.c_size_t(8000))
for block in blocks:
    ctypes.memset(block, 1, 8000)
    libc.free(block)
before = read_memory()
process_memory.MemoryRelease().run()
print(before - read_memory())
"""


@glibc_only
@pytest.mark.parametrize(
    ("size", "busy_share", "is_returned"),
    [(16_000_000, 0, False), (16_000_000, 1000, True), (64_000_000, 0, True)],
    ids=["a busy process", "an idle process", "a large read"],
)
def test_a_busy_process_returns_only_much_memory(size: int, busy_share: float, is_returned: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RELEASE, str(size), str(busy_share)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert size * (0.8 if is_returned else -0.2) <= int(done.stdout) <= size * (1.2 if is_returned else 0.2)
