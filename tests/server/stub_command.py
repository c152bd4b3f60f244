"""Process that runs the command `count.up` in the writer.

`python -m tests.server.stub_command DATA_DIR TO [GATE]` prints progress and result as lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from integration.cli import exit_on_error
from integration.server.run_command import run_command_with
from tests.server.stub_product import StubProduct, settings_for


@exit_on_error
def main(data_dir: str, to: str, *gate: str) -> None:
    def show(facts: Mapping[str, Any]) -> None:
        print(json.dumps(facts), flush=True)

    arguments = {"to": int(to)} | ({"gate": gate[0]} if gate else {})
    result = run_command_with(
        Path(data_dir),
        "count.up",
        arguments,
        lambda: nullcontext(StubProduct(settings_for(data_dir))),
        show,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    show({**result, "is_own_process": result["pid"] == os.getpid()})


if __name__ == "__main__":
    main(*sys.argv[1:])
