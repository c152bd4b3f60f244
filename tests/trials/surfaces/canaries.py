"""Trial of secrets in pages, errors, logs, exports, backups and responses."""

from __future__ import annotations

import base64
import html
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from integration.access import passwords
from integration.app_schema import open_app_db
from integration.catalogue import RESOURCES, field_meanings
from integration.outbound import mail_server
from integration.outbound.mail_server import MailServer
from tests.support.harness import wait_for
from tests.trials.tools.databases import is_complete
from tests.trials.tools.traffic import EMAIL, create_access, prepare_login
from tests.trials.trial import NO_TRAFFIC, Trial

FORMATS = ("csv", "jsonl")
WRONG_PATHS = (
    "/nothing",
    "/calls/x",
    "/calls/99999999999999999999",
    "/v1.2/users/x",
    "/v1.2/nothing",
    "/exports/x.csv",
)
ENTERED_PASSWORD = "password entered for the mail server"
"""Name of the secret that is in house.db, because the mail server requires it."""
LISTED = [one for one in RESOURCES if one.is_listed]


class Canaries(Trial):
    """No log, error, page, export, backup or facade response contains a secret.

    Disturbed: every secret is a unique word: webhook secret and password, API key of the platform, password
    and session of a user, facade key, SMTP passwords of the settings and of the form, and secret fields in
    records of the platform, expected and unexpected ones. Everything is requested, correctly and wrongly,
    while the platform works and fails.
    Checked: all bytes of responses and of files on disk are searched for each secret, plain and in Base64.
    Detects: records that are shown with their secrets.
    """

    name = "canaries"
    size_option, size = "--pages", 1000
    bugs, symptoms = ("show_secrets",), ("users",)
    short = ("--pages 60", "--pages 10 --seed-bug")
    promises = ("S2",)

    def boot(self) -> None:
        self.found: list[str] = []
        self.searched = self.searched_bytes = 0
        self.simulator = self.start_simulator(*NO_TRAFFIC, history=60)
        names = (
            "webhook secret",
            "webhook password",
            "password of a user",
            "SMTP password",
            ENTERED_PASSWORD,
        )
        self.canaries = {name: _make_canary() for name in names}
        self.canaries["platform API key"] = self.simulator.api_key
        self._change_records()
        hashed = passwords.hash_password(self.canaries["password of a user"])
        self.canaries["facade key"] = create_access(self.data_dir, hashed).key
        self._enter_mail_server()
        self.product = self.start_product(
            self.data_dir,
            self.simulator,
            sync__recent_interval="1",
            webhooks__secret=self.canaries["webhook secret"],
            webhooks__username="platform",
            webhooks__password=self.canaries["webhook password"],
            smtp__host="127.0.0.1",
            smtp__port="9",
            smtp__user="switchroom",
            smtp__password=self.canaries["SMTP password"],
            smtp__from="switchroom@example.com",
        )
        listed = [one.collection for one in LISTED if one.collection != "calls"]
        wait_for(lambda: is_complete(self.data_dir, *listed), "the initial sync", 240)

    def load(self) -> None:
        cookie = self._log_in()
        self.canaries["session token"] = cookie.partition("=")[2]
        self.page = {"Cookie": cookie, "Accept": "text/html"}
        self.key = {"X-Auth-Token": self.canaries["facade key"]}
        pages = self._crawl(self.options.size)
        self.verify(pages > min(30, self.options.size - 1), f"there are pages to search, not {pages}")
        self._read_facade(self.key)
        self._export()
        self._send_webhooks()
        self._cause_errors()
        self._run_commands(more=self.options.size > 100)

    def disturb(self) -> None:
        self.simulator.control("POST", "faults", {"spec": "status=500"})
        uncached = {**self.key, "Cache-Control": "no-cache"}
        self._read_facade(uncached, most=6)
        self.simulator.control("DELETE", "faults")
        self.simulator.control("POST", "outage", {"seconds": 60})
        self._read_facade(uncached, most=6)
        for path in ("/readyz", "/metrics"):
            self._request("GET", path)

    def check(self) -> None:
        self.stop_product(self.product)
        self._search("the log", self.product.output.encode())
        self._search_files()
        for one in dict.fromkeys(self.found):
            self.verify(False, one)
        self.figures.append(
            f"{len(self.canaries)} secrets searched in {self.searched} responses and files, "
            f"{self.searched_bytes:,} bytes"
        )

    def _search(self, where: str, content: bytes, allowed: Iterable[str] = ()) -> None:
        """Search `content` for all secrets but those `allowed` there."""
        self.searched += 1
        self.searched_bytes += len(content)
        for name, value in self.canaries.items():
            encoded = base64.b64encode(value.encode()).rstrip(b"=")
            if name not in allowed and any(form in content for form in (value.encode(), encoded)):
                self.found.append(f"{name} in {where}")

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        allowed: Iterable[str] = (),
    ) -> tuple[int, bytes, Any]:
        """Send a request, and search its response."""
        status, content, found = self.product.client.send(method, path, body, headers)
        self._search(f"{method} {path} ({status})", content + str(found).encode(), allowed)
        return status, content, found

    def _enter_mail_server(self) -> None:
        """Store a mail server as its form does. `doctor`, pages and exports read the same database."""
        app_db = open_app_db(self.data_dir / "house.db")
        try:
            password = self.canaries[ENTERED_PASSWORD]
            server = MailServer("127.0.0.1", 9, "", "switchroom", password, "switchroom@example.com")
            mail_server.save(app_db, server)
        finally:
            app_db.close()

    def _change_records(self) -> None:
        """Write secrets into one record of each collection at the platform."""
        simulator, header = self.simulator, {"X-Auth-Token": self.simulator.api_key}
        for resource in LISTED:
            names = [one.name for one in resource.fields if field_meanings.is_secret(one.name)]
            if not names and resource.collection in ("queues", "contacts", "cdrs"):
                names = ["sip_password", "password", "token"]
            if not names:
                continue
            if resource.collection == "me":
                me = simulator.client.json("GET", f"{simulator.base}/me", headers=header)["data"]
                self.canaries["SIP password of /me"] = me["sip_password"]
                continue
            path = f"{simulator.base}/{resource.collection}?limit=1"
            record = simulator.client.json("GET", path, headers=header)["data"][0]
            values = {name: _make_canary() for name in (*names, "sip_password")}
            nested = _make_canary()
            simulator.control(
                "PATCH",
                f"records/{resource.collection}/{record[resource.key or 'id']}",
                {**values, "undocumented": [{"phone": {"sip_password": nested}}]},
            )
            self.canaries |= {f"{name} of {resource.collection}": value for name, value in values.items()}
            self.canaries[f"nested SIP password of {resource.collection}"] = nested

    def _log_in(self) -> str:
        """Log in wrongly in several ways, then correctly. Returns the session cookie."""
        password, client = self.canaries["password of a user"], self.product.client
        attempts = ((password, "x"), ("nobody@example.com", password), (EMAIL, password + "x"))
        for email, given in (*attempts, (EMAIL, password)):
            body, headers = prepare_login(client, given, email)
            status, content, found = client.send("POST", "/login", body, headers)
            self._search("the login page", content)
        assert status == 303, status
        return str(found["Set-Cookie"]).partition(";")[0]

    def _crawl(self, most: int) -> int:
        """Follow links, three of each kind of page.

        Only System and the settings show the webhook secret, to administrators. Returns the number of pages.
        """
        pending, seen, kinds = ["/"], {"/"}, dict[str, int]()
        pages = 0
        while pending and pages < most:
            path = pending.pop(0)
            allowed = (
                ("webhook secret",) if urlsplit(path).path in ("/system", "/settings/connection") else ()
            )
            status, content, headers = self._request("GET", path, self.page, allowed=allowed)
            pages += 1
            if "text/html" not in str(headers["Content-Type"]) and status != 303:
                continue
            links = [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"#]+)"', content.decode())]
            for link in [*links, *filter(None, [headers["Location"]])]:
                url = urlsplit(urljoin(path, link))
                target = f"{url.path}?{url.query}" if url.query else url.path
                names = "&".join(sorted(re.findall(r"[a-z_]+(?==)", url.query)))
                kind = re.sub(r"\d+", "0", url.path) + "?" + names
                is_skipped = url.path.startswith(("/static", "/live/stream"))
                if url.netloc or target in seen or kinds.get(kind, 0) >= 3 or is_skipped:
                    continue
                seen.add(target)
                kinds[kind] = kinds.get(kind, 0) + 1
                pending.append(target)
        return pages

    def _read_facade(self, headers: Mapping[str, str], most: int = 1000) -> None:
        for resource in LISTED[:most]:
            status, content, _ = self._request("GET", f"/v1.2/{resource.collection}", headers)
            if status != 200 or resource.key is None or not resource.item:
                continue
            data = json.loads(content)["data"]
            for record in data[:2] if isinstance(data, list) else []:
                key = quote(str(record[resource.key]), safe="")
                self._request("GET", f"/v1.2/{resource.collection}/{key}", headers)
        for name in sorted(field_meanings.SECRET_NAMES):
            condition = quote(json.dumps([{"property": name, "operator": "like", "value": "canary"}]))
            self._request("GET", f"/v1.2/users?filter={condition}", headers)
        for path in ("/openapi.json", "/docs", "/v1.2/ping"):
            self._request("GET", path, headers)

    def _export(self) -> None:
        for resource in LISTED:
            for kind in FORMATS:
                self._request("GET", f"/exports/{resource.table}.{kind}", self.page)

    def _send_webhooks(self) -> None:
        """Send webhooks with wrong paths, passwords, methods and bodies."""
        secret, password = self.canaries["webhook secret"], self.canaries["webhook password"]
        right = base64.b64encode(f"platform:{password}".encode()).decode()
        wrong = base64.b64encode(f"platform:{password}x".encode()).decode()
        for suffix in ("", "x", "/more", "?a=b"):
            for given in (None, f"Basic {wrong}", f"Basic {right}", f"Basic {password}"):
                headers = {"Authorization": given} if given else {}
                for method, body in (("GET", None), ("POST", b"{"), ("POST", b'{"id":"1"}'), ("PUT", b"x")):
                    status, content, found = self.product.client.send(
                        method, f"/webhooks/{secret}{suffix}", body, headers
                    )
                    self._search(f"receiver: {method} {status}", content + str(found).encode())

    def _cause_errors(self) -> None:
        """Use secrets in wrong places, to find errors that repeat them."""
        prefixes = ("/", "/v1.2/", "/setup/", "/wall/", "/v1.2/apitokens/")
        for name, value in list(self.canaries.items()):
            for prefix in prefixes:
                for headers in (self.page, {"X-Auth-Token": value + "0"}, {}):
                    content = self.product.client.send("GET", prefix + value, headers=headers)[1]
                    if value.encode() in content:
                        self.found.append(f"{name} in the path is repeated by GET {prefix}…")
        for path in WRONG_PATHS:
            for method in ("GET", "POST", "DELETE"):
                self._request(method, path, self.page, b"{" if method == "POST" else None)

    def _run_commands(self, *, more: bool) -> None:
        all_commands = ("verify",), ("sync", "users"), ("replay",), ("key", "list"), ("user", "list")
        backup = str(self.folder / "backup")
        commands = ("doctor",), ("backup", backup), ("export", "users"), *(all_commands if more else ())
        for arguments in commands:
            done = self.product.command(*arguments)
            self._search(f"`{' '.join(arguments[:2])}`", (done.stdout + done.stderr).encode())
        names = "\n".join(str(path) for path in self.folder.rglob("*"))
        self._search("the names of files", names.encode())

    def _search_files(self) -> None:
        """Search the files of `data_dir`.

        mirror.db has the secrets of records, except the SIP password of /me. Keys and passwords of the
        product are only stored as hashes, except that of an entered mail server.
        """
        in_records = [
            name for name in self.canaries if " of " in name and not name.startswith(("password of a", "SIP"))
        ]
        for path in sorted(self.data_dir.rglob("*")):
            if path.is_file():
                allowed = in_records if path.name.startswith("mirror.db") else ()
                if path.name.startswith("house.db"):
                    allowed = [ENTERED_PASSWORD]
                self._search(f"the file {path.name}", path.read_bytes(), allowed)


def _make_canary() -> str:
    return f"canary{secrets.token_hex(12)}"
