"""Trial of the facade with generated requests."""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections import Counter
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.failures import Failure, FailureGroup

from integration.catalogue.shapes import OPERATORS
from tests.support.harness import wait_for
from tests.trials.trial import Trial

FILTER_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
FILTERS = st.lists(
    st.fixed_dictionaries(
        {
            "property": st.sampled_from(["id", "calldate", "user_id", "type", "disposition"])
            | st.text(max_size=10),
            "operator": st.sampled_from(sorted(OPERATORS)),
            "value": FILTER_VALUES | st.lists(FILTER_VALUES, max_size=4),
        }
    ),
    max_size=3,
).map(json.dumps)
"""JSON texts of the form that the document describes. Schemathesis generates other texts."""
SCHEMA_CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]


class Contract(Trial):
    """No request to the facade causes an error of the facade itself.

    Disturbed: Schemathesis generates valid and invalid requests from the OpenAPI document, many of them for
    records that exist.
    Checked: no response is a 5xx, every response follows the document (status, content type, schema), every
    error has the form `{message, errors}`, no connection breaks, and the log has no traceback.
    Detects: a parameter that is converted without a check.
    """

    name = "schemathesis"
    size_option, size = "--cases", 10_000
    bugs, symptoms = ("parse_limit_unchecked",), ("500",)
    short = ("--cases 175", "--cases 300 --only 'GET /cdrs' --seed-bug")
    promises = ("S23",)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--only", metavar="NAME", help="one operation, such as 'GET /cdrs'")

    def boot(self) -> None:
        self.statuses: Counter[int] = Counter()
        simulator = self.start_simulator("--seed", "3", "--no-traffic", history=3000)
        self.product = self.start_product(
            self.data_dir, simulator, recordings__download="false", voicemail__download="false"
        )
        created = self.product.command(
            "key", "add", "fuzz", "--scope", "write", "--grant", "export,recordings"
        ).stdout
        self.headers = {"X-Auth-Token": created.strip().rpartition(":")[2]}
        self.base = self.product.url + simulator.base

        def is_complete() -> bool:
            response = requests.get(f"{self.base}/cdrs?limit=1", headers=self.headers, timeout=10)
            return response.headers.get("X-Mirror-Complete") == "true"

        wait_for(is_complete, "the CDRs in the mirror", 300)

    def disturb(self) -> None:
        begun, only = time.monotonic(), self.options.only
        schema = schemathesis.openapi.from_url(f"{self.product.url}/openapi.json", headers=self.headers)
        operations = [result.ok() for result in schema.get_all_operations()]
        operations = [row for row in operations if only in (None, row.label)]
        self.cases = max(1, -(-self.options.size // len(operations)))
        for number, operation in enumerate(operations):
            self._send_requests(operation, self.options.seed * 1000 + number)
        statuses = " ".join(f"{status}×{count}" for status, count in sorted(self.statuses.items()))
        seconds = time.monotonic() - begun
        self.figures.append(f"{sum(self.statuses.values())} cases in {seconds:.0f} s, statuses {statuses}")

    def check(self) -> None:
        tracebacks = [line for line in self.product.lines if "Traceback" in line]
        self.verify(
            not tracebacks, f"{len(tracebacks)} tracebacks in the log:\n{self.product.output[-3000:]}"
        )

    def _send_requests(self, operation: Any, seed: int) -> None:
        """Send requests to one operation, half of them invalid.

        Records one failure at most.
        """
        modes = [operation.as_strategy(GenerationMode.POSITIVE)]
        if operation.path_parameters or operation.query or operation.body:
            modes.append(operation.as_strategy(GenerationMode.NEGATIVE))
        session, problems = requests.Session(), list[str]()

        @seeded(seed)
        @settings(
            max_examples=self.cases,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(
            case=st.one_of(modes),
            record=st.sampled_from([None, *self._list_keys(operation.path)]),
            key=st.sampled_from([None, "new", "as is"]),
            filter_text=st.none() | FILTERS,
        )
        def send(case: Any, record: str | None, key: str | None, filter_text: str | None) -> None:
            _prepare(case, record, key)
            if filter_text is not None and "filter" in (case.query or {}):
                case.query["filter"] = filter_text
            try:
                response = case.call(base_url=self.base, session=session, headers=self.headers, timeout=30)
            except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
                return
            except requests.RequestException as error:
                problem: str | None = f"no response: {error}"
            else:
                self.statuses[response.status_code] += 1
                problem = find_problem(case, response)
            if problem:
                problems.append(f"{operation.label}: {problem}\n    {case.as_curl_command()[:600]}")

        send()
        if problems:
            self.verify(False, problems[0])

    def _list_keys(self, path: str) -> list[str]:
        """Return keys of records in the collection of `path`."""
        stem, parameter, _ = path.partition("/{")
        if not parameter:
            return []
        response = requests.get(f"{self.base}{stem}?limit=5", headers=self.headers, timeout=10)
        body = response.json() if response.status_code == 200 else {}
        found = body.get("data") if isinstance(body, dict) else None
        name = "e164" if "{e164}" in path else "id"
        rows = found if isinstance(found, list) else []
        return [str(row[name]) for row in rows if isinstance(row, dict) and name in row]


def _prepare(case: Any, record: str | None, key: str | None) -> None:
    """Set credentials, idempotency key and record of a generated request."""
    for name in ("Authorization", "X-Auth-Token"):
        # Authentication is not tried here: failed attempts are limited.
        case.headers.pop(name, None)
    if key != "as is":
        # Generated keys are short and repeat; a repeated request does nothing.
        case.headers.pop("Idempotency-Key", None)
    if key == "new" and case.method != "GET":
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    for name in ("id", "ids", "e164"):
        if record is not None and name in (case.path_parameters or {}):
            case.path_parameters[name] = record


def find_problem(case: Any, response: requests.Response) -> str | None:
    """Return a description of what is wrong with a response, or None."""
    if response.status_code >= 500:
        return f"{response.status_code} {response.text[:200]}"
    if response.status_code >= 400 and case.method.upper() != "HEAD":
        try:
            body = json.loads(response.content)
        except ValueError:
            # The server itself refuses an invalid URL with 400.
            return None if response.status_code == 400 else f"not JSON: {response.text[:200]}"
        if not isinstance(body, dict) or set(body) != {"message", "errors"}:
            return f"another form: {response.text[:200]}"
    try:
        case.validate_response(response, checks=SCHEMA_CHECKS)
    except (Failure, FailureGroup) as failure:
        return f"differs from the document: {str(failure)[:600]}"
    return None
