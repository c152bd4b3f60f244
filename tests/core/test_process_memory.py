"""Limits of glibc after a restart of the program, and other C libraries."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from integration.core import process_memory
from tests.support.harness import Product

PROGRAM = """
import ctypes, os, sys, threading
from integration.core import process_memory

pid = os.getpid()
if sys.argv[1] == "limited":
    process_memory.restart_with_limits()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(41)

def allocate():
    barrier.wait()
    for size in range(100, 1000, 100):
        for block in [libc.malloc(ctypes.c_size_t(size)) for _ in range(7)]:
            libc.free(ctypes.c_void_p(block))
    barrier.wait()
    barrier.wait()

class Figures(ctypes.Structure):
    _fields_ = [(f"figure_{number}", ctypes.c_size_t) for number in range(10)]

libc.mallinfo2.restype = Figures
threads = [threading.Thread(target=allocate) for _ in range(40)]
for thread in threads:
    thread.start()
before = libc.mallinfo2().figure_7
barrier.wait()
barrier.wait()
kept = libc.mallinfo2().figure_7 - before
barrier.wait()
for thread in threads:
    thread.join()
process_memory.trim()
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
print(f"kept: {kept}", "arguments:", sys.argv[1:], flush=True)
"""

glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these limits")


def run_program(folder: Path, mode: str, **environment: str) -> tuple[int, int]:
    """Return the number of arenas, and the bytes that 40 threads keep of 1.1 MB they freed."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, mode, "a b"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "arguments: ['" + mode + "', 'a b']" in done.stdout
    return done.stdout.count("<heap nr="), int(done.stdout.partition("kept: ")[2].split()[0])


@glibc_only
def test_threads_of_a_limited_program_share_one_arena_and_keep_no_freed_memory(tmp_path: Path) -> None:
    arenas, kept = run_program(tmp_path, "unlimited")
    assert arenas > 2
    assert kept > 1_000_000
    arenas, kept = run_program(tmp_path, "limited")
    assert arenas == 1
    assert kept < 300_000


@glibc_only
def test_settings_of_the_environment_are_kept(tmp_path: Path) -> None:
    _, kept = run_program(tmp_path, "limited", GLIBC_TUNABLES="glibc.malloc.tcache_count=7")
    assert kept > 1_000_000


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


def test_loaded_objects_are_exempt_from_collections() -> None:
    loaded = Node()
    process_memory.exempt_loaded_objects()
    release = process_memory.MemoryRelease()
    try:
        unused = weakref.ref(loaded)
        del loaded
        release.run()
        assert unused() is not None
    finally:
        gc.unfreeze()
    release.run()
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
