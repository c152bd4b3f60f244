"""Library that simulates a failing disk.

It replaces calls of the C library in the product's processes, and is compiled when a trial needs it. fsync
and fdatasync of files whose name begins with the text of a rule file fail with EIO, except for that of the
header of a write-ahead log without content. The log has a line for every sync of a file in the watched
folder: `pid result path`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL(name, type) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, name)

typedef int (*sync_call)(int);
typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 1023);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

/* Whether the rule file has a prefix of `name`. */
static int fails(const char *name) {
    char text[64];
    int fd = open(getenv("TRIAL_RULES"), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, sizeof text);
    close(fd);
    return length > 0 && !strncmp(name, text, length);
}

static void note(const char *result, const char *path) {
    const char *watched = getenv("TRIAL_WATCHED"), *log = getenv("TRIAL_LOG");
    char line[1200];
    if (strncmp(path, watched, strlen(watched))) return;
    int length = snprintf(line, sizeof line, "%d %s %s\n", getpid(), result, path);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return;
    static write_call real; if (!real) real = (write_call)dlsym(RTLD_NEXT, "write");
    if (real(fd, line, length) < 0) abort();
    close(fd);
}

/* The file whose last write was the header of a write-ahead log. */
static _Thread_local int head = -1;

static void wrote(int fd, size_t size, off_t at) {
    if (at == 0 && size == 32) head = fd;
    else if (head == fd) head = -1;
}

static int synced(int fd, sync_call real) {
    char path[1024];
    if (!path_of(fd, path)) return real(fd);
    const char *name = strrchr(path, '/');
    if (name && fd != head && fails(name + 1)) { note("failed", path); errno = EIO; return -1; }
    int result = real(fd), kept = errno;
    note(result ? "failed" : "ok", path);
    errno = kept;
    return result;
}

int fsync(int fd) { REAL("fsync", sync_call); return synced(fd, real); }
int fdatasync(int fd) { REAL("fdatasync", sync_call); return synced(fd, real); }

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL("pwrite", pwrite_call);
    wrote(fd, size, at);
    return real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    REAL("pwrite64", pwrite_call);
    wrote(fd, size, at);
    return real(fd, data, size, at);
}
"""


@dataclass(frozen=True)
class Shim:
    """`environment` loads the library into a process. Nothing fails before `fail`."""

    environment: dict[str, str]
    _rules: Path
    _log: Path

    def fail(self, name: str = "") -> None:
        """Let the syncs of files fail whose name begins with `name`; of none if it is empty."""
        fresh = self._rules.with_suffix(".new")
        fresh.write_text(name)
        os.replace(fresh, self._rules)

    def list_syncs(self) -> list[tuple[int, bool, Path]]:
        """Return all syncs: process id, success, file."""
        if not self._log.exists():
            return []
        # The last line may be incomplete.
        complete = self._log.read_text().rpartition("\n")[0]
        lines = [line.split(" ", 2) for line in complete.splitlines()]
        return [(int(pid), result == "ok", Path(path)) for pid, result, path in lines]


def build_shim(folder: Path, watched: Path) -> Shim:
    """Compile the library into `folder`. Raises RuntimeError without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("a disk that fails on demand needs a C compiler: sudo apt install gcc libc6-dev")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SOURCE)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"],
        check=True,
        timeout=120,
    )
    rules, log = folder / "rules", folder / "syncs"
    environment = {
        "LD_PRELOAD": str(library),
        "TRIAL_RULES": str(rules),
        "TRIAL_LOG": str(log),
        "TRIAL_WATCHED": str(watched.resolve()),
    }
    return Shim(environment, rules, log)
