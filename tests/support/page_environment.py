"""Python examples of the pages of docs/."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def run_examples(page: str, folder: Path, names: str) -> Any:
    """Run the Python examples of `page` in `folder`.

    `page` is as in `read_section`. Returns the value of the expression `names` afterwards, as JSON.
    """
    examples = re.findall(r"```python\n(.*?)```", read_section(page), re.DOTALL)
    code = "\n".join((*examples, f"import json\nprint(json.dumps({names}))"))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
