"""Value types of settings with their own checks.

Each error states what to write instead.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Collection
from functools import cache
from importlib import resources
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from integration.settings.usual_hours import check_hours

Network = IPv4Network | IPv6Network

MIN_FREE_BYTES = 2 * 10**9
"""Bytes of disk that stay free, in addition to `recordings.max_gb` and `exports.max_gb`."""
MIN_FREE_TEXT = f"{MIN_FREE_BYTES / 10**9:g} GB"

OBJECT_SCHEMES = ("s3://", "gs://", "abfs://")
"""Beginnings of URLs of object storage."""

RESERVED_PATHS = frozenset({
    "account", "calls", "contacts", "demo", "dial", "docs", "export", "exports", "healthz", "help",
    "live", "login", "logout", "messages", "metrics", "missed", "notifications", "openapi.json", "palette",
    "privacy", "profile", "readyz", "recordings", "reports", "search", "settings", "setup", "static",
    "system", "voicemail", "wall", "wallboard", "webhooks",
})  # fmt: skip
"""First path segments of the product's own pages.

A base path of the facade cannot begin with one of them. It can begin with the path of the own API, which is
then off (`api_paths`).
"""


def is_in_networks(networks: Collection[Network], address: str | None) -> bool:
    """Check whether the IP `address` is in one of `networks`.

    Returns False for None and for text that is not an IP address. An IPv4 address in IPv6 form
    (`::ffff:192.0.2.1`) is treated as the IPv4 address.
    """
    if not networks:
        return False  # Usual for each request of a webhook: parsing the address takes longer than the rest.
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in networks)


def find_client_network(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 address: a client can use any address of its /64.

    An IPv4 address in IPv6 form is treated as the IPv4 address. Other text is returned unchanged.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((int(parsed), 64), strict=False))


def is_loopback(host: str) -> bool:
    """Check whether `host` is always this machine.

    `host`: a name, or an address without brackets.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return is_in_networks((ip_network("127.0.0.0/8"), ip_network("::1/128")), host)


def _reject_boolean(value: Any) -> Any:
    # pydantic converts true to 1, so a port `true` would be accepted.
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _check_single_line(value: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError("contains a control character or a line break")
    if value != value.strip():
        raise ValueError("begins or ends with a space")
    return value


def _check_url(value: str) -> str:
    _check_single_line(value)
    try:
        parsed = urlsplit(value)
        port = parsed.port
    except ValueError as error:
        raise ValueError(f"is not a URL ({error})") from None
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise ValueError("must be a URL that begins with https:// (or http://)")
    if port == 0:
        raise ValueError("must not use port 0")
    if parsed.username is not None or parsed.password is not None:
        raise ValueError("must not contain credentials; use the separate keys for user and password")
    if "?" in value or "#" in value:
        raise ValueError("must end after the path, without ? or #")
    if re.search(r"\s", value):
        raise ValueError("must not contain spaces")
    return value.rstrip("/")


def _check_without_path(value: str) -> str:
    if urlsplit(value).path:
        raise ValueError("must be an address without a path, such as https://calls.example.com")
    return value


def _parse_network(value: Any) -> Any:
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text such as 192.0.2.1 or 192.0.2.0/24")
    try:
        return ip_network(value, strict=False)
    except ValueError:
        raise ValueError(
            f"{value!r} is not an address or network; use a value such as 192.0.2.1 or 192.0.2.0/24"
        ) from None


def _check_thresholds(value: tuple[int, int]) -> tuple[int, int]:
    amber, red = value
    if amber < 0 or red < amber:
        raise ValueError("must be [amber, red] in seconds, at least 0, with amber not above red")
    return value


def _to_text(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _check_user_id(value: str) -> str:
    if ":" in value:
        raise ValueError("must not contain a colon (HTTP Basic uses it as the separator)")
    return value


def _check_email(value: str) -> str:
    name, separator, host = value.rpartition("@")
    if not (name and separator and host) or " " in value:
        raise ValueError("must be an e-mail address")
    return value


def _check_time_zone(value: str) -> str:
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{value!r} is not a time zone; use a name such as Europe/London or UTC") from None
    return value


@cache
def _load_country_codes() -> frozenset[str]:
    table = (resources.files("tzdata") / "zoneinfo" / "iso3166.tab").read_text("utf-8")
    return frozenset(line[:2] for line in table.splitlines() if line and line[0] != "#")


def check_country(value: str) -> str:
    code = value.upper()
    if code == "UK":
        raise ValueError("'UK' is not a country code; use GB for the United Kingdom")
    if code not in _load_country_codes():
        raise ValueError(f"{value!r} is not a country code; use two letters such as GB or US")
    return code


def _check_base_path(value: str) -> str:
    path = value.rstrip("/")
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", path) or {".", ".."} & set(path.split("/")):
        raise ValueError(f"{value!r} must be a path such as /v1.2")
    if path.split("/")[1].lower() in RESERVED_PATHS:
        raise ValueError(f"{value!r} is reserved for the product's own pages; choose another path")
    return path


def _check_origin(value: str) -> str:
    if value in ("*", "null"):
        return value
    try:
        return _check_without_path(_check_url(value))
    except ValueError:
        raise ValueError(f"{value!r} must be an origin such as https://app.example.com, or *") from None


def _check_webhook_secret(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._~-]+", value) or value in (".", ".."):
        raise ValueError(
            "may contain only letters, digits, '.', '_', '~' and '-', because it is part of a URL"
        )
    return value


def _to_tuple(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return value


def _check_alert_url(value: str) -> str:
    if "://" not in _check_single_line(value):
        # The message omits the value: these URLs contain tokens.
        raise ValueError("must be a URL with a scheme, such as mailto:// or https://")
    return value


def _check_syslog_target(value: str) -> str:
    message = f"{value!r} is not a syslog target; use /dev/log, udp://logs.example.com:514 or tcp://…"
    if value.startswith("/"):
        return value
    try:
        url = urlsplit(_check_single_line(value))
        is_valid = url.scheme in ("udp", "tcp") and bool(url.hostname) and url.port != 0
    except ValueError:
        raise ValueError(message) from None
    if not is_valid or url.path not in ("", "/") or url.query or url.username:
        raise ValueError(message)
    return value


def _check_host(value: str) -> str:
    address = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if not re.fullmatch(r"[A-Za-z0-9.:%_-]+", address):
        raise ValueError(
            f"{value!r} is not a host; use a name or an IP address such as 127.0.0.1, 0.0.0.0 or ::"
        )
    if ":" in address:
        try:
            ip_address(address)
        except ValueError:
            raise ValueError(f"{value!r} is not an IP address; set the port with its own key, port") from None
    return address


def _check_listen_address(value: str) -> str:
    host, separator, port = value.rpartition(":")
    is_ipv6 = host.startswith("[") and host.endswith("]")
    if not separator or not (is_ipv6 or ":" not in host) or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ValueError(f"{value!r} must be host:port, such as 127.0.0.1:9100 or [::1]:9100")
    _check_host(host)
    if int(port) > 65535:
        raise ValueError(f"{value!r} has a port above 65535")
    return value


CRM_PLACEHOLDER = re.compile(r"\{(e164|digits|national|name|contact_id|call_id|our_e164)\}")
"""Placeholder in `dashboard.crm_url`."""


def _check_crm_url(value: str) -> str:
    _check_single_line(value)
    try:
        url = urlsplit(value)
        is_valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not {"{", "}", "@"}.isdisjoint(url.netloc):
        raise ValueError(
            "must be an address such as https://crm.example.com/search?phone={e164}, without a login"
        )
    if not CRM_PLACEHOLDER.search(value) or not {"{", "}"}.isdisjoint(CRM_PLACEHOLDER.sub("", value)):
        raise ValueError(
            "needs at least one of the placeholders {e164}, {digits}, {national}, {name}, {contact_id},"
            " {call_id} and {our_e164}, and no others"
        )
    return value


def _check_stop_word(value: str) -> str:
    if not any(character.isalnum() for character in value):
        raise ValueError(f"{value!r} has no letter and no digit")
    return value


def _expand_path(value: Path) -> Path:
    return value.expanduser()


def is_url(value: str) -> bool:
    """Check whether `value` is a URL, and not a path."""
    return "://" in value


def check_object_url(value: str) -> str:
    """Return a URL of object storage. Raises ValueError, whose text begins with a verb."""
    url = urlsplit(_check_single_line(value))
    if not url.netloc or not value.startswith(OBJECT_SCHEMES):
        raise ValueError("must begin with s3://, gs:// or abfs:// and a bucket, such as s3://bucket/calls")
    if url.password is not None:
        raise ValueError("must not contain credentials; set those of docs/exports.md in the environment")
    return value


def _check_export_folder(value: str) -> str:
    return check_object_url(value) if is_url(value) else str(Path(value).expanduser())


UsualHours = Annotated[tuple[Annotated[str, AfterValidator(check_hours)], ...], BeforeValidator(_to_tuple)]
WholeNumber = Annotated[int, BeforeValidator(_reject_boolean)]
Number = Annotated[float, BeforeValidator(_reject_boolean), Field(allow_inf_nan=False)]
Text = Annotated[str, AfterValidator(_check_single_line), Field(min_length=1)]
LabelName = Annotated[Text, Field(max_length=40), AfterValidator(str.strip)]
Url = Annotated[str, AfterValidator(_check_url)]
SiteUrl = Annotated[Url, AfterValidator(_check_without_path)]
ThresholdPair = Annotated[tuple[WholeNumber, WholeNumber], AfterValidator(_check_thresholds)]
PlatformUserId = Annotated[Text, BeforeValidator(_to_text), AfterValidator(_check_user_id)]
Email = Annotated[Text, AfterValidator(_check_email)]
TimeZone = Annotated[Text, AfterValidator(_check_time_zone)]
Country = Annotated[Text, AfterValidator(check_country)]
BasePath = Annotated[Text, AfterValidator(_check_base_path)]
Origin = Annotated[Text, AfterValidator(_check_origin)]
Host = Annotated[Text, AfterValidator(_check_host)]
SyslogTarget = Annotated[Text, AfterValidator(_check_syslog_target)]
ListenAddress = Annotated[Text, AfterValidator(_check_listen_address)]
AlertUrl = Annotated[Text, AfterValidator(_check_alert_url)]
Networks = tuple[Annotated[Network, BeforeValidator(_parse_network)], ...]
WebhookSecretList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_webhook_secret)], ...],
    BeforeValidator(_to_tuple),
    Field(min_length=1, max_length=2),
]
CrmUrl = Annotated[Text, AfterValidator(_check_crm_url)]
StopWord = Annotated[Text, AfterValidator(_check_stop_word)]
FilePath = Annotated[Path, AfterValidator(_expand_path)]
ExportFolder = Annotated[Text, AfterValidator(_check_export_folder)]
Port = Annotated[WholeNumber, Field(ge=0, le=65535)]
