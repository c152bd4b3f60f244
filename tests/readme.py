"""Print the shell line of a section of README.md: `python tests/readme.py Run`.

Tests and CI run the lines that the README shows.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def line(heading: str) -> str:
    """Return the shell line below `## heading`.

    Raises ValueError unless the first shell block of the section has exactly one line.
    """
    text = README.read_text("utf-8")
    section = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    blocks = re.findall(r"^```sh\n(.*?)\n```$", section[1], re.M | re.S) if section else []
    if not blocks or "\n" in blocks[0]:
        raise ValueError(f"README.md: '## {heading}' should begin with one shell line")
    return str(blocks[0])


if __name__ == "__main__":
    print(line(sys.argv[1]))
