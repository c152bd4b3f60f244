"""Promise S23: whatever is sent to the facade, no answer is a fault of its own.

Schemathesis makes requests from the facade's own OpenAPI document, valid ones and broken ones, and sends them
to the product in front of the simulator, many of them to records that there are. Any 5xx, any error in
another shape than `{message, errors}` and any connection that breaks is a failure. `--seed-bug` lets one
parameter be read carelessly: it must be found.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import friday_evening

SEEDED = """
from integration.mirror.query import query
def careless(args, name, default):
    return int(args.get(name, default))
query._parse_positive_int = careless
import runpy, sys
sys.argv[0] = "app.py"
runpy.run_path("app.py", run_name="__main__")
"""


@dataclass
class Tally:
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    cases: int = 0


def check(case: Any, answer: requests.Response) -> str | None:
    """What is wrong with an answer; None where nothing is."""
    if answer.status_code >= 500:
        return f"{answer.status_code} {answer.text[:200]}"
    if answer.status_code >= 400 and case.method.upper() != "HEAD":
        try:
            body = json.loads(answer.content)
        except ValueError:
            # A URL that is no HTTP at all never gets as far as the facade: the server answers 400.
            return None if answer.status_code == 400 else f"not JSON: {answer.text[:200]}"
        if not isinstance(body, dict) or set(body) != {"message", "errors"}:
            return f"another shape: {answer.text[:200]}"
    return None


def fuzz(
    operation: Any, base: str, headers: dict[str, str], cases: int, seed: int, tally: Tally, known: list[str]
) -> None:
    """`cases` requests to one operation, half of them broken on purpose; `known` are ids of its records."""
    modes = [operation.as_strategy(GenerationMode.POSITIVE)]
    if operation.path_parameters or operation.query or operation.body:
        modes.append(operation.as_strategy(GenerationMode.NEGATIVE))
    session = requests.Session()

    @seeded(seed)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.one_of(modes),
        record=st.sampled_from([None, *known]),
        key=st.sampled_from([None, "new", "as is"]),
    )
    def send(case: Any, record: str | None, key: str | None) -> None:
        for name in ("Authorization", "X-Auth-Token"):
            # Who asks is not what is tried here: guesses are limited.
            case.headers.pop(name, None)
        if key != "as is":
            # Short keys repeat, and a repeat is answered without doing anything.
            case.headers.pop("Idempotency-Key", None)
        if key == "new" and case.method != "GET":
            case.headers["Idempotency-Key"] = uuid.uuid4().hex
        for name in ("id", "ids", "e164"):
            if record is not None and name in (case.path_parameters or {}):
                case.path_parameters[name] = record
        try:
            answer = case.call(base_url=base, session=session, headers=headers, timeout=30)
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            return
        except requests.RequestException as error:
            tally.failures.setdefault(operation.label, f"no answer: {error}\n{case.as_curl_command()[:600]}")
            return
        tally.cases += 1
        tally.statuses[answer.status_code] += 1
        wrong = check(case, answer)
        if wrong:
            tally.failures.setdefault(operation.label, f"{wrong}\n    {case.as_curl_command()[:600]}")

    send()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials schemathesis", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seed-bug", action="store_true", help="run with a planted bug; it must be found")
    parser.add_argument("--only", metavar="NAME", help="one operation, such as 'GET /cdrs'")
    options = parser.parse_args(arguments)
    tally, begun = Tally(), time.monotonic()
    simulator = Simulator("--seed", "3", "--no-traffic", "--cdrs", "3000", "--start", str(friday_evening()))
    try:
        with tempfile.TemporaryDirectory() as folder:
            product = Product(
                Path(folder),
                base_url=simulator.url,
                user_id=simulator.user_id,
                api_key=simulator.api_key,
                program=("-c", SEEDED) if options.seed_bug else ("app.py",),
                sync__max_requests_per_minute="100000",
                recordings__download="false",
                voicemail__download="false",
            )
            try:
                _run(product, simulator, options, tally)
            finally:
                product.stop()
    finally:
        simulator.stop()
    seconds = time.monotonic() - begun
    statuses = " ".join(f"{status}×{count}" for status, count in sorted(tally.statuses.items()))
    print(f"schemathesis: {tally.cases} cases in {seconds:.0f} s, statuses {statuses}")
    for label, wrong in tally.failures.items():
        print(f"  {label}: {wrong}")
    found = bool(tally.failures)
    print(f"  {len(tally.failures)} operations failed")
    return int(found != options.seed_bug)


def _run(product: Product, simulator: Simulator, options: argparse.Namespace, tally: Tally) -> None:
    secret = product.command("key", "add", "fuzz", "--scope", "write").stdout.strip().rpartition(":")[2]
    headers = {"X-Auth-Token": secret}
    base = product.url + simulator.base

    def read() -> bool:
        answer = requests.get(f"{base}/cdrs?limit=1", headers=headers, timeout=10)
        return answer.headers.get("X-Mirror-Complete") == "true"

    wait_for(read, "the CDRs in the mirror", 300)
    schema = schemathesis.openapi.from_url(f"{product.url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    operations = [row for row in operations if options.only in (None, row.definition.raw["operationId"])]
    each = max(1, -(-options.cases // len(operations)))
    for number, operation in enumerate(operations):
        seed = options.seed * 1000 + number
        fuzz(operation, base, headers, each, seed, tally, _known(operation.path, base, headers))
    if product.popen.poll() is not None:
        tally.failures["the product"] = f"ended with {product.popen.returncode}:\n{product.output[-2000:]}"
    noted = [line for line in product.lines if "Traceback" in line]
    if noted:
        tally.failures["the log"] = f"{len(noted)} tracebacks:\n{product.output[-3000:]}"


def _known(path: str, base: str, headers: dict[str, str]) -> list[str]:
    """What names some records of the collection that `path` begins with."""
    stem, parameter, _ = path.partition("/{")
    if not parameter:
        return []
    answer = requests.get(f"{base}{stem}?limit=5", headers=headers, timeout=10)
    body = answer.json() if answer.status_code == 200 else {}
    found = body.get("data") if isinstance(body, dict) else None
    name = "e164" if "{e164}" in path else "id"
    rows = found if isinstance(found, list) else []
    return [str(row[name]) for row in rows if isinstance(row, dict) and name in row]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
