"""Mistakes between keys, such as a certificate without its private key.

Only the presence of values is checked, so invalid values elsewhere do not hide these mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from integration.settings.values import is_loopback

Values = Mapping[str, Mapping[str, Any]]
"""Values by section and key, as read from the sources."""

_FALSE_TEXTS = frozenset({"false", "0", "no", "off", "f", "n"})
"""Texts of a variable that pydantic reads as false."""
READABLE_FILES = (("platform", "ca_file"), ("server", "tls_cert"), ("server", "tls_key"))


def find_mistakes(values: Values, *, needs_credentials: bool) -> Iterator[str]:
    """Yield one line per mistake, which names its key.

    Without `needs_credentials`, missing or incomplete platform credentials are accepted.
    """
    yield from _check_credentials(values, is_required=needs_credentials)
    yield from _require_both(values, "server", "tls_cert", "tls_key")
    yield from _require_both(values, "webhooks", "username", "password")
    yield from _check_mail(values)
    for section, key in READABLE_FILES:
        if _is_set(values, section, key):
            yield from find_unreadable_file(section, key, values[section][key])


def find_unreadable_file(section: str, key: str, value: object) -> Iterator[str]:
    """Yield the mistake of a key whose file cannot be read.

    Nothing for keys that name no file.
    """
    if (section, key) not in READABLE_FILES:
        return
    path = Path(str(value)).expanduser()
    try:
        path.open("rb").close()
    except OSError as error:
        yield (
            f"{section}.{key}: {path}: cannot be read: {error.strerror};"
            " correct the path, or make the file readable for this user"
        )


def _check_credentials(values: Values, *, is_required: bool) -> Iterator[str]:
    has_key, has_login = (
        any(_is_set(values, "platform", key) for key in keys)
        for keys in (("user_id", "api_key"), ("email", "password"))
    )
    if has_key and has_login:
        yield (
            "platform.email: an API key and a login are both configured; remove platform.user_id and"
            " platform.api_key, or platform.email and platform.password"
        )
    if not is_required:
        return
    if not (has_key or has_login):
        yield "platform.api_key: no credentials; set user_id and api_key, or email and password"
    if has_key:
        yield from _require_both(values, "platform", "user_id", "api_key")
    if has_login:
        yield from _require_both(values, "platform", "email", "password")


def _check_mail(values: Values) -> Iterator[str]:
    yield from _require_both(values, "smtp", "user", "password")
    if _is_set(values, "smtp", "host"):
        if not _is_set(values, "smtp", "from"):
            yield "smtp.from: is required if smtp.host is set"
        is_unencrypted = str(values["smtp"].get("starttls", "")).lower() in _FALSE_TEXTS
        if (
            is_unencrypted
            and _is_set(values, "smtp", "user")
            and not is_loopback(str(values["smtp"]["host"]))
        ):
            yield (
                "smtp.starttls: false would send smtp.password unencrypted; remove smtp.starttls, or remove"
                " smtp.user and smtp.password"
            )
        return
    keys = [key for key in ("port", "user", "password", "from", "starttls") if _is_set(values, "smtp", key)]
    if keys:
        yield f"smtp.host: is required if smtp.{keys[0]} is set; set it, or remove all keys of [smtp]"


def _is_set(values: Values, section: str, key: str) -> bool:
    return values[section].get(key) not in (None, "")


def _require_both(values: Values, section: str, first: str, second: str) -> Iterator[str]:
    for present, missing in ((first, second), (second, first)):
        if _is_set(values, section, present) and not _is_set(values, section, missing):
            yield f"{section}.{missing}: is required if {section}.{present} is set"
