"""Python environment of a reader: the packages that a page of docs/ names, and their requirements."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.harness import ROOT


def read_section(page: str) -> str:
    """Return the text of `page`: a path, and `#` with the anchor of a section to return only this one."""
    path, _, anchor = page.partition("#")
    text = (ROOT / path).read_text("utf-8")
    if not anchor:
        return text
    _, *sections = re.split(r"^#+ ", text, flags=re.MULTILINE)
    (section,) = (part for part in sections if part.splitlines()[0].lower().replace(" ", "-") == anchor)
    return section


def make_environment(page: str, folder: Path) -> Path:
    """Create an environment in `folder` with the packages of `pip install …` on `page`, as in `read_section`.

    They are links to those of this environment, because an installation takes minutes. Returns the folder of
    the programs.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    programs = folder / "bin"
    named = re.findall(r"`pip install ([\w \[\],-]+)`", read_section(page))
    pending = [Requirement(name) for names in named for name in names.split()]
    linked: set[tuple[str, str]] = set()
    assert pending, f"{page} names no packages"
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        extras = {(name, extra) for extra in ("", *requirement.extras)} - linked
        if not extras:
            continue
        linked |= extras
        distribution = metadata.distribution(name)
        scripts = {
            entry.name: entry for entry in distribution.entry_points if entry.group == "console_scripts"
        }
        for script in scripts.values():
            code = f"import sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
            (programs / script.name).write_text(f"#!{programs}/python\n{code}")
            (programs / script.name).chmod(0o755)
        for file in distribution.files or ():
            is_program = file.parts[0] == ".." and file.parts[-2] == "bin"
            if is_program and file.name not in scripts:
                (programs / file.name).symlink_to(distribution.locate_file(file))
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (packages / top).exists():
                (packages / top).symlink_to(str(distribution.locate_file(top)))
        pending += [
            one
            for one in map(Requirement, distribution.requires or ())
            if not one.marker or any(one.marker.evaluate({"extra": extra}) for _, extra in extras)
        ]
    return programs


def run_examples(page: str, folder: Path, names: str) -> Any:
    """Run the Python examples of `page` in `folder`, in the environment of its reader.

    `page` is as in `read_section`. Returns the value of the expression `names` afterwards, as JSON.
    """
    examples = re.findall(r"```python\n(.*?)```", read_section(page), re.DOTALL)
    code = "\n".join((*examples, f"import json\nprint(json.dumps({names}))"))
    python = make_environment(page, folder / "environment") / "python"
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
