"""Arenas of glibc in a forked process, and other C libraries."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from integration.core import process_memory

PROGRAM = """
import ctypes, os, sys, threading
from integration.core import process_memory

child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if sys.argv[1] == "limited":
    assert process_memory.limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(12)

def allocate():
    barrier.wait()
    libc.malloc(ctypes.c_size_t(2000))
    barrier.wait()

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
process_memory.release_free_memory()
os._exit(0)
"""


def count_arenas(mode: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_a_forked_process_has_two_arenas_for_all_its_threads() -> None:
    assert count_arenas("limited") <= 2 < count_arenas("unlimited")


def test_other_c_libraries_are_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert not process_memory.limit_arenas()
    process_memory.release_free_memory()
