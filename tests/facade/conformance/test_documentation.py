"""Examples of docs/facade.md, run unchanged and in order, and what they produce."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.support.harness import ROOT, Product, run_installation, wait_for

pytestmark = pytest.mark.exhaustive

TEXT = (ROOT / "docs" / "facade.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)\n```$", TEXT, re.M | re.S)
POWER_QUERY = re.findall(r"^ *```m\n(.*?)```$", TEXT, re.M | re.S)
ORIGIN = "http://127.0.0.1:8000"
"""Address in the examples. The only text that is replaced, because the port must be free."""


@dataclass
class Manual:
    """The page's examples after their run."""

    product: Product
    folder: Path
    environment: dict[str, str]
    outputs: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.environment["BASE"]

    @property
    def credentials(self) -> tuple[str, str]:
        user_id, _, secret = self.environment["KEY"].partition(":")
        return user_id, secret

    def run(self, language: str, text: str) -> str:
        """Run an example. Variables that it exports are set for later examples."""
        if language == "python":
            command = ["python", "-c", text]
        else:
            exported = (
                "python3 -c 'import json, os, sys; json.dump(dict(os.environ), sys.stdout)' > .environment"
            )
            command = [
                "bash",
                "-eo",
                "pipefail",
                "-c",
                f"{text.replace(ORIGIN, self.product.url)}\n{exported}",
            ]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        if language == "sh":
            self.environment = json.loads((self.folder / ".environment").read_text())
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manual]:
    options = ("--seed", "5", "--no-traffic", "--cdrs", "1000")
    settings = {"recordings__download": "false"}
    with run_installation(tmp_path_factory.mktemp("data"), *options, **settings) as (_, product):
        key = product.command("key", "add", "wait", "--scope", "read").stdout.strip()
        token = {"X-Auth-Token": key.partition(":")[2]}

        def is_complete() -> bool:
            responses = [
                product.client.send("GET", f"/v1.2/{name}", None, token) for name in ("cdrs", "users")
            ]
            return all(headers["X-Mirror-Complete"] == "true" for _, _, headers in responses)

        wait_for(is_complete, "the mirror", 180)
        programs = Path(sys.executable).parent
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, **product.environment, "PATH": path}
        manual = Manual(product, tmp_path_factory.mktemp("integrator"), environment)
        manual.outputs = [manual.run(language, text) for language, text in BLOCKS]
        yield manual


@pytest.fixture(scope="module")
def document(manual: Manual) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((manual.folder / "openapi.json").read_text())
    return parsed


def find_output(manual: Manual, text: str) -> str:
    """Return the output of the one example that contains `text`."""
    (output,) = [output for (_, block), output in zip(BLOCKS, manual.outputs, strict=True) if text in block]
    return output


@pytest.mark.parametrize("text", ["/cdrs?limit=5&sort", '-G "$BASE/cdrs"', "X-Auth-Token: ${KEY#*:}"])
def test_curl_returns_records(manual: Manual, text: str) -> None:
    body = json.loads(find_output(manual, text))
    assert body["total"] > 0
    assert body["data"]


def test_an_unchanged_list_is_304(manual: Manual) -> None:
    assert find_output(manual, "If-None-Match") == "304\n"


def test_python_examples_print_a_result(manual: Manual) -> None:
    assert re.fullmatch(r"\d{3,4} calls; the mirror is \d+ seconds old\n", find_output(manual, "while True"))
    assert re.fullmatch(r"201 \d+\n", find_output(manual, '"Idempotency-Key": key'))


def test_the_generated_client_has_every_operation_and_works(manual: Manual, document: dict[str, Any]) -> None:
    generated = find_output(manual, "openapi-python-client generate")
    assert "WARNING" not in generated
    assert "Unable" not in generated
    files = (manual.folder / "client").glob("switchroom_api_client/api/*/*.py")
    functions = {path.stem for path in files if path.stem != "__init__"}
    ids = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert functions == set(ids)
    assert len(ids) == 183
    people, calls, message = find_output(manual, "AuthenticatedClient").splitlines()
    assert len(people.split(",")) == 3
    assert int(calls.split()[0]) > 0
    assert re.fullmatch(r"sent as \d+", message)


def test_the_example_of_every_collection_returns_200(manual: Manual, document: dict[str, Any]) -> None:
    """Every list without a record in its path, with the examples of its parameters."""
    # Takes two seconds to import, and every worker imports every file.
    from jsonschema import Draft202012Validator

    tried = 0
    for path, item in document["paths"].items():
        operation = item.get("get", {})
        parameters = operation.get("parameters", [])
        if not any(parameter["name"] == "limit" for parameter in parameters) or "{" in path:
            continue
        if "servers" in operation:
            continue  # the own API: tests/api
        query = {
            parameter["name"]: parameter["example"] for parameter in parameters if "example" in parameter
        }
        assert {"page", "limit", "filter"} <= query.keys(), path
        response = requests.get(manual.base + path, query, auth=manual.credentials, timeout=30)
        # The simulator keeps the keys of its users to itself, as the platform does for local keys.
        assert response.status_code == (403 if path == "/apitokens" else 200), (path, response.text)
        if response.status_code == 200:
            content = operation["responses"]["200"]["content"]["application/json"]
            schema = {**content["schema"], "components": document["components"]}
            problems = [error.message for error in Draft202012Validator(schema).iter_errors(response.json())]
            assert problems == [], path
            tried += 1
    assert tried > 40


def test_power_query_reads_every_page(manual: Manual) -> None:
    """Its request, sent as Excel sends it: base, relative path and query."""
    (text,) = POWER_QUERY
    (base,) = re.findall(r'Base = "(.*?)"', text)
    (path,) = re.findall(r'RelativePath = "(.*?)"', text)
    query = dict(re.findall(r'(\w+) = "(\w+)"', text.partition("Query = [")[2].partition("]")[0]))
    assert urlsplit(base).path == urlsplit(manual.base).path
    response = requests.get(
        f"{manual.base}/{path}", {**query, "page": "1"}, auth=manual.credentials, timeout=30
    )
    assert response.status_code == 200
    assert len(response.json()["data"]) == response.json()["total"] > 500
    assert query["limit"] == "5000"
    assert "First[total] / 5000" in text


def test_the_page_has_every_kind_of_example() -> None:
    languages = [language for language, _ in BLOCKS]
    assert (languages.count("sh"), languages.count("python"), len(POWER_QUERY)) == (6, 3, 1)
