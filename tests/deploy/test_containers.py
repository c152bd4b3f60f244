"""Names in the Dockerfile, compose and Traefik, which are not run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration import cli
from integration.settings.model import load
from integration.settings.sources import PREFIX
from tests.deploy.build_context import list_sources
from tests.deploy.debian_tools import run_tool
from tests.support.harness import ROOT

FOLDER = ROOT / "deploy"
DOCKERFILE = (FOLDER / "container" / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((FOLDER / "container" / "compose.yaml").read_text())
PLATFORM = {
    "SWITCHROOM_PLATFORM__BASE_URL": "https://api.example.com/v1.2",
    "SWITCHROOM_PLATFORM__USER_ID": "100001",
    "SWITCHROOM_PLATFORM__API_KEY": "k",
}


def list_instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
    return [(name, rest) for line in text.splitlines() if line for name, _, rest in [line.partition(" ")]]


def get_arguments(name: str) -> list[str]:
    return [rest.strip() for instruction, rest in list_instructions() if instruction == name]


def read_image_environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(get_arguments("ENV"))))


def test_the_image_runs_the_product_as_a_user_without_rights() -> None:
    assert {name for name, _ in list_instructions()} <= {
        "FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK",
        "STOPSIGNAL", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    assert get_arguments("USER") == ["10001"]
    assert "useradd --system --uid 10001" in DOCKERFILE
    assert json.loads(get_arguments("ENTRYPOINT")[0]) == ["switchroom"]
    (command,) = json.loads(get_arguments("CMD")[-1])
    assert command == "serve"
    assert (Path(cli.__file__).parent / f"{command}.py").exists()
    assert (ROOT / "requirements.lock").exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "switchroom" in project["scripts"]
    (version,) = {image.split(":")[1].split("-")[0] for image in get_arguments("FROM")}
    assert version >= project["requires-python"].removeprefix(">=")


def test_settings_and_paths_of_the_image_are_valid() -> None:
    environment = read_image_environment()
    variables = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    config = variables.pop("SWITCHROOM_CONFIG")
    settings = load(None, {**PLATFORM, **variables})
    assert get_arguments("VOLUME") == [str(settings.storage.data_dir)]
    assert get_arguments("EXPOSE") == [str(settings.server.port)]
    assert settings.server.host == "0.0.0.0"
    folders = f"{settings.storage.data_dir} {Path(config).parent}"
    assert f"install -d -m 0700 -o switchroom -g switchroom {folders}\n" in DOCKERFILE
    mounts = [mount.split(":") for mount in COMPOSE["services"]["switchroom"]["volumes"]]
    assert [mount[1] for mount in mounts] == [str(settings.storage.data_dir), str(Path(config).parent)]


@pytest.mark.exhaustive
def test_hadolint_accepts_the_dockerfile() -> None:
    program = Path(sys.executable).with_name("hadolint")
    checked = subprocess.run([program, FOLDER / "container/Dockerfile"], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_build_context_has_only_sources(tmp_path: Path) -> None:
    secrets = (
        "config.toml", ".git/config", ".venv/bin/python", "data/house.db", "integration/__pycache__/a.pyc",
        "deploy/container/settings/config.toml", "dist/a.whl", "demo-data/webhook-secret",
    )  # fmt: skip
    for name in (*secrets, "integration/a.py", "deploy/README.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert list_sources(tmp_path) == {"integration/a.py", "deploy/README.md"}
    # A wheel is built from such files in tests/release.


def test_the_health_check_of_the_image_requests_healthz() -> None:
    (check,) = [rest for rest in get_arguments("HEALTHCHECK") if "CMD" in rest]
    program, flag, code = json.loads(check.partition("CMD ")[2])
    assert (program, flag) == ("python", "-c")
    assert "http://127.0.0.1:8000/healthz" in code
    compile(code, "health check", "exec")


def test_the_composition_is_closed() -> None:
    services: dict[str, Any] = COMPOSE["services"]
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    switchroom = services["switchroom"]
    # Only the proxy can be reached from outside.
    assert "ports" not in switchroom
    assert services["caddy"]["depends_on"] == {"switchroom": {"condition": "service_healthy"}}
    (subnet,) = [entry["subnet"] for entry in COMPOSE["networks"]["proxy"]["ipam"]["config"]]
    settings = load(None, {**PLATFORM, **switchroom["environment"]})
    assert [str(network) for network in settings.server.trusted_proxies] == [subnet]
    assert (ROOT / "deploy/container" / switchroom["build"]["context"]).resolve() == ROOT
    assert (ROOT / switchroom["build"]["dockerfile"]).exists()
    named = {mount.split(":")[0] for service in services.values() for mount in service["volumes"]}
    assert {name for name in named if not name.startswith(".")} == COMPOSE["volumes"].keys()


def test_the_caddyfile_of_the_composition_is_that_of_the_proxies() -> None:
    contained = (FOLDER / "container" / "Caddyfile").read_text()
    expected = (FOLDER / "proxies" / "Caddyfile").read_text()
    expected = expected.replace("127.0.0.1:8000", "switchroom:8000")
    expected = expected.replace("file /var/log/caddy/switchroom.log", "stdout")
    assert contained.partition("\n{\n")[2] == expected.partition("\n{\n")[2]
    adapted = run_tool("caddy", "adapt", "--adapter", "caddyfile", "--config", FOLDER / "container/Caddyfile")
    assert adapted.returncode == 0, adapted.stderr
    assert "switchroom:8000" in adapted.stdout


def test_all_proxies_remove_the_same_headers() -> None:
    caddy = (FOLDER / "proxies" / "Caddyfile").read_text()
    nginx = (FOLDER / "proxies" / "nginx.conf").read_text()
    traefik = yaml.safe_load((FOLDER / "proxies" / "traefik.yaml").read_text())["http"]
    middleware = traefik["middlewares"]["switchroom-headers"]
    removed = {name for name, value in middleware["headers"]["customRequestHeaders"].items() if value == ""}
    assert removed == set(re.findall(r"header_up -(\S+)", caddy))
    assert removed == set(re.findall(r'proxy_set_header (\S+) "";', nginx)) - {"Connection"}
    assert removed == {"Forwarded", "X-Real-IP", "Via"}
    set_by_nginx = set(re.findall(r"proxy_set_header (X-\S+) \$", nginx))
    assert set_by_nginx == {"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"}


def test_traefik_leads_to_the_default_port() -> None:
    http = yaml.safe_load((FOLDER / "proxies" / "traefik.yaml").read_text())["http"]
    (router,) = http["routers"].values()
    assert router["service"] in http["services"]
    assert set(router["middlewares"]) == http["middlewares"].keys()
    balancer = http["services"][router["service"]]["loadBalancer"]
    settings = load(None, PLATFORM)
    assert balancer["servers"] == [{"url": f"http://{settings.server.host}:{settings.server.port}"}]
    assert balancer["healthCheck"]["path"] == "/healthz"
    assert balancer["passHostHeader"] is True
