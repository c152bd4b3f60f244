"""Bar S2: no secret is told by a log, an error, a page, an export, the name of a backup, or the facade.

Every secret is an unmistakable word: the receiver's secret and its Basic password, the platform's API key,
the password of a person, their session's token, a key of the facade, the mail server's password, and what
records of the platform hold: PINs, SIP passwords, old keys, where they are expected and where nobody expects
them. Then everything is asked for, well and badly, while the platform is there and while it fails; every byte
that came back, and every byte on disk, is searched for each of them, as it stands and in Base64.

    python -m tests.trials canaries [--pages N]         1,000 pages at most
"""

from __future__ import annotations

import argparse
import base64
import html
import json
import re
import secrets
import sqlite3
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, urlencode, urljoin, urlsplit

from integration.access import keys, passwords, people
from integration.app_schema import open_app_db
from integration.catalogue import RESOURCES, field_meanings
from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import Report, friday_evening
from tests.trials.tools.traffic import PLANTED

EMAIL = "ann@example.com"
FORMATS = ("csv", "jsonl", "xlsx")
BAD_PATHS = (
    "/nothing",
    "/calls/x",
    "/calls/99999999999999999999",
    "/v1.2/users/x",
    "/v1.2/nothing",
    "/exports/x.csv",
)


@dataclass
class Places:
    """What came back from where, searched as it comes; `allowed` names the secrets that a place may show."""

    canaries: dict[str, str]
    found: list[str] = field(default_factory=list)
    looked: int = 0
    size: int = 0

    def look(self, where: str, content: bytes, allowed: tuple[str, ...] = ()) -> None:
        self.looked += 1
        self.size += len(content)
        for name, value in self.canaries.items():
            coded = base64.b64encode(value.encode()).rstrip(b"=")
            if name not in allowed and any(form in content for form in (value.encode(), coded)):
                self.found.append(f"{name} in {where}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials canaries")
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--seed-bug", action="store_true", help="mask nothing")
    options = parser.parse_args(arguments)
    report = Report("canaries")
    simulator = Simulator("--seed", "5", "--no-traffic", "--cdrs", "60", "--start", str(friday_evening()))
    try:
        with tempfile.TemporaryDirectory(prefix="switchroom-canaries-") as folder:
            places = _try(Path(folder), simulator, options, report)
    finally:
        simulator.stop()
    for one in dict.fromkeys(places.found):
        report.check(False, one)
    about = f"{len(places.canaries)} secrets looked for in {places.looked} answers and files"
    about += f", {places.size:,} bytes"
    return report.end(about) if not options.seed_bug else int(not any("users" in one for one in places.found))


def _try(folder: Path, simulator: Simulator, options: argparse.Namespace, report: Report) -> Places:
    data_dir = folder / "data"
    canaries = {
        name: f"canary{secrets.token_hex(12)}"
        for name in ("webhook secret", "webhook password", "password of a person", "SMTP password")
    }
    canaries["platform API key"] = simulator.api_key
    canaries |= _plant(simulator)
    canaries["facade key"] = _people(data_dir, canaries["password of a person"])
    places = Places(canaries)
    product = Product(
        data_dir,
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        program=(*PLANTED, "unmasked") if options.seed_bug else ("app.py",),
        sync__recent_interval="1",
        sync__max_requests_per_minute="60000",
        webhooks__secret=canaries["webhook secret"],
        webhooks__username="platform",
        webhooks__password=canaries["webhook password"],
        smtp__host="127.0.0.1",
        smtp__port="9",
        smtp__user="switchroom",
        smtp__password=canaries["SMTP password"],
        smtp__from="switchroom@example.com",
    )
    try:
        wait_for(lambda: _unread(data_dir / "mirror.db") == 0, "a first walk", 240)
        cookie = _log_in(product, places)
        canaries["session token"] = cookie.partition("=")[2]
        page = {"Cookie": cookie, "Accept": "text/html"}
        key = {"X-Auth-Token": canaries["facade key"]}
        crawled = _crawl(product, places, page, options.pages)
        report.check(crawled > 30, f"there are pages to look at, not {crawled}")
        _facade(product, places, key)
        _exports(product, places, page, options.formats)
        _webhooks(product, places)
        _errors(product, places, page)
        _commands(product, places, folder, more=options.pages > 100)
        simulator.control("POST", "faults", {"spec": "status=500"})
        _facade(product, places, {**key, "Cache-Control": "no-cache"}, most=6)
        simulator.control("DELETE", "faults")
        simulator.control("POST", "outage", {"seconds": 60})
        _facade(product, places, {**key, "Cache-Control": "no-cache"}, most=6)
        places.look("/readyz", product.client.ask("GET", "/readyz")[1])
        places.look("/metrics", product.client.ask("GET", "/metrics")[1])
    finally:
        product.stop(30)
    places.look("the log", product.output.encode())
    _files(data_dir, places)
    return places


def _plant(simulator: Simulator) -> dict[str, str]:
    """Secrets in records of the platform, by the name of where they stand."""
    header, planted = {"X-Auth-Token": simulator.api_key}, {}
    odd = ("sip_password", "password", "token")
    for resource in RESOURCES:
        known = [one.name for one in resource.fields if field_meanings.is_secret(one.name)]
        wanted = known or (list(odd) if resource.collection in ("queues", "contacts", "cdrs") else [])
        if not wanted or not resource.is_listed:
            continue
        if resource.collection == "me":
            me = simulator.client.json("GET", f"{simulator.base}/me", headers=header)["data"]
            planted["SIP password of /me"] = me["sip_password"]
            continue
        listed = simulator.client.json(
            "GET", f"{simulator.base}/{resource.collection}?limit=1", headers=header
        )
        record = listed["data"][0]
        values = {name: f"canary{secrets.token_hex(12)}" for name in (*wanted, "sip_password")}
        nested = f"canary{secrets.token_hex(12)}"
        simulator.control(
            "PATCH",
            f"records/{resource.collection}/{record[resource.key or 'id']}",
            {**values, "unheard_of": [{"phone": {"sip_password": nested}}]},
        )
        planted |= {f"{name} of {resource.collection}": value for name, value in values.items()}
        planted[f"nested SIP password of {resource.collection}"] = nested
    return planted


def _people(data_dir: Path, password: str) -> str:
    """An administrator with this password, and a key of the facade, whose secret is returned."""
    data_dir.mkdir(parents=True, mode=0o700)
    app_db = open_app_db(data_dir / "house.db")
    try:
        people.create(app_db, EMAIL, "admin", password_hash=passwords.hash_password(password))
        return keys.add(app_db, "trial", "read")[1]
    finally:
        app_db.close()


def _log_in(product: Product, places: Places) -> str:
    """Log in wrong in several ways, then right; returns the session's cookie."""
    password = places.canaries["password of a person"]
    _, form, headers = product.client.ask("GET", "/login", headers={"Accept": "text/html"})
    token = re.search(rb'name="csrf_token" value="([^"]+)"', form)
    assert token is not None
    sent = {
        "Cookie": str(headers["Set-Cookie"]).partition(";")[0],
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "text/html",
    }
    for email, given in (
        (password, "x"),
        ("nobody@example.com", password),
        (EMAIL, password + "x"),
        (EMAIL, password),
    ):
        body = urlencode({"email": email, "password": given, "csrf_token": token[1].decode()})
        status, answer, headers = product.client.ask("POST", "/login", body.encode(), sent)
        places.look("the login page", answer)
    assert status == 303, status
    return str(headers["Set-Cookie"]).partition(";")[0]


def _crawl(product: Product, places: Places, headers: Mapping[str, str], most: int) -> int:
    """Follow every link from page to page. Only System shows administrators the webhooks' address."""
    todo, seen, kinds = ["/"], {"/"}, dict[str, int]()
    looked = 0
    while todo and looked < most:
        path = todo.pop(0)
        status, answer, found = product.client.ask("GET", path, headers=headers)
        looked += 1
        allowed = ("webhook secret",) if urlsplit(path).path in ("/system", "/settings") else ()
        places.look(f"page {path}", answer + str(found).encode(), allowed)
        if "text/html" not in str(found["Content-Type"]) and status != 303:
            continue
        links = [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"#]+)"', answer.decode())]
        for link in [*links, *filter(None, [found["Location"]])]:
            parts = urlsplit(urljoin(path, link))
            whole = f"{parts.path}?{parts.query}" if parts.query else parts.path
            # A thousand calls are one kind of page.
            kind = (
                re.sub(r"\d+", "0", parts.path)
                + "?"
                + "&".join(sorted(re.findall(r"[a-z_]+(?==)", parts.query)))
            )
            if (
                parts.netloc
                or whole in seen
                or kinds.get(kind, 0) >= 3
                or parts.path.startswith(("/static", "/live/stream"))
            ):
                continue
            seen.add(whole)
            kinds[kind] = kinds.get(kind, 0) + 1
            todo.append(whole)
    return looked


def _facade(product: Product, places: Places, headers: Mapping[str, str], most: int = 1000) -> None:
    for resource in [one for one in RESOURCES if one.is_listed][:most]:
        status, answer, _ = product.client.ask("GET", f"/v1.2/{resource.collection}", headers=headers)
        places.look(f"facade: /{resource.collection}", answer)
        if status != 200 or resource.key is None or not resource.item:
            continue
        data = json.loads(answer)["data"]
        for record in data[:2] if isinstance(data, list) else []:
            path = f"/{resource.collection}/{quote(str(record[resource.key]), safe='')}"
            places.look(f"facade: {path}", product.client.ask("GET", f"/v1.2{path}", headers=headers)[1])
    for name in sorted(field_meanings.SECRET_NAMES):
        where = quote(json.dumps([{"property": name, "operator": "like", "value": "canary"}]))
        status, answer, _ = product.client.ask("GET", f"/v1.2/users?filter={where}", headers=headers)
        places.look(f"facade: filter on {name}", answer)
    for path in ("/openapi.json", "/docs", "/v1.2/ping"):
        places.look(f"facade: {path}", product.client.ask("GET", path, headers=headers)[1])


def _exports(product: Product, places: Places, headers: Mapping[str, str], formats: tuple[str, ...]) -> None:
    for resource in [one for one in RESOURCES if one.is_listed]:
        for kind in formats:
            path = f"/exports/{resource.table}.{kind}"
            status, answer, _ = product.client.ask("GET", path, headers=headers)
            if kind == "xlsx" and status == 200:
                with zipfile.ZipFile(BytesIO(answer)) as book:
                    answer = b"\n".join(book.read(name) for name in book.namelist())
            places.look(path, answer)


def _webhooks(product: Product, places: Places) -> None:
    """To the receiver, in every wrong way."""
    secret, password = places.canaries["webhook secret"], places.canaries["webhook password"]
    right = base64.b64encode(f"platform:{password}".encode()).decode()
    half = base64.b64encode(f"platform:{password}x".encode()).decode()
    for path in (
        f"/webhooks/{secret}",
        f"/webhooks/{secret}x",
        f"/webhooks/{secret}/more",
        f"/webhooks/{secret}?a=b",
    ):
        for given in (None, f"Basic {half}", f"Basic {right}", f"Basic {password}"):
            headers = {"Authorization": given} if given else {}
            for method, body in (("GET", None), ("POST", b"{"), ("POST", b'{"id":"1"}'), ("PUT", b"x")):
                status, answer, found = product.client.ask(method, path, body, headers)
                places.look(f"receiver: {method} {status}", answer + str(found).encode())


def _errors(product: Product, places: Places, page: Mapping[str, str]) -> None:
    """Secrets in all the wrong places, to see whether an error repeats one."""
    for name, value in list(places.canaries.items()):
        for path in (
            f"/{value}",
            f"/v1.2/{value}",
            f"/setup/{value}",
            f"/wall/{value}",
            f"/v1.2/apitokens/{value}",
        ):
            for headers in (page, {"X-Auth-Token": value + "0"}, {}):
                answer = product.client.ask("GET", path, headers=headers)
                if value.encode() in answer[1]:
                    places.found.append(
                        f"{name} given in a path is repeated by GET {path.replace(value, '…')}"
                    )
    for path in BAD_PATHS:
        for method in ("GET", "POST", "DELETE"):
            status, answer, found = product.client.ask(method, path, b"{" if method == "POST" else None, page)
            places.look(f"{method} {path} ({status})", answer + str(found).encode())


def _commands(product: Product, places: Places, folder: Path, *, more: bool) -> None:
    backup = folder / "backup"
    for arguments in (
        ("doctor",),
        ("backup", str(backup)),
        ("export", "users"),
        *((("verify",), ("sync", "users"), ("replay",), ("key", "list"), ("user", "list")) if more else ()),
    ):
        done = product.command(*arguments)
        places.look(f"`{' '.join(arguments[:2])}`", (done.stdout + done.stderr).encode())
    names = "\n".join(str(path) for path in folder.rglob("*"))
    places.look("the names of files", names.encode())


def _files(data_dir: Path, places: Places) -> None:
    """In mirror.db stands what the platform tells, PINs too. What opens a door of ours is nowhere but hashed,
    and the SIP password of /me is nowhere."""
    records = tuple(
        name for name in places.canaries if " of " in name and not name.startswith(("password of a", "SIP"))
    )
    for path in sorted(data_dir.rglob("*")):
        if path.is_file():
            places.look(
                f"the file {path.name}",
                path.read_bytes(),
                records if path.name.startswith("mirror.db") else (),
            )


def _unread(mirror: Path) -> int:
    """Collections that were not read completely yet."""
    listed = [one.collection for one in RESOURCES if one.is_listed and one.collection != "calls"]
    with closing(sqlite3.connect(f"file:{mirror}?mode=ro", uri=True, timeout=10)) as connection:
        rows = connection.execute("SELECT collection FROM _walks WHERE complete_at > ''").fetchall()
    return len(set(listed) - {row[0] for row in rows})
