from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from integration.access import keys
from integration.core.refused import Refused
from integration.sqlite.database import Database


def test_a_key_looks_like_the_platforms(house: Database) -> None:
    user_id, secret = keys.add(house, "crm", "read")
    assert re.fullmatch(r"[0-9]{6,7}:[a-f0-9]{40}", f"{user_id}:{secret}")
    assert secret.encode() not in b"".join(path.read_bytes() for path in house.path.parent.glob("house.db*"))


def test_a_key_is_known_with_its_user_id_and_alone(house: Database) -> None:
    user_id, secret = keys.add(house, "crm", "write", ["cdrs", "/sms/cannedresponses"], 412345)
    for user_part in (str(user_id), None):
        key = keys.check(house, user_part, secret)
        assert key is not None
        assert (key.name, key.scope, key.platform_user_id) == ("crm", "write", 412345)
        assert key.may_touch("/cdrs")
        assert key.may_touch("sms/cannedresponses")
        assert not key.may_touch("users")


@pytest.mark.parametrize("spoil", ["secret", "user", "case", "empty", "surrogate"])
def test_wrong_credentials_are_nobodys(house: Database, spoil: str) -> None:
    user_id, secret = keys.add(house, "crm", "read")
    wrong = {
        "secret": (str(user_id), "0" * 40),
        "user": (str(user_id + 1), secret),
        "case": (str(user_id), secret.upper() if secret.upper() != secret else "A" * 40),
        "empty": (str(user_id), ""),
        "surrogate": (None, "\udcff"),
    }
    assert keys.check(house, *wrong[spoil]) is None


def test_a_revoked_key_stops_and_its_name_is_free(house: Database) -> None:
    user_id, secret = keys.add(house, "crm", "read")
    keys.revoke(house, "crm")
    assert keys.check(house, str(user_id), secret) is None
    assert keys.everything(house) == []
    again, _ = keys.add(house, "crm", "read")
    assert again != user_id
    with pytest.raises(Refused, match="no key"):
        keys.revoke(house, "other")


def test_a_name_is_one_key(house: Database) -> None:
    keys.add(house, "crm", "read")
    with pytest.raises(Refused, match="already"):
        keys.add(house, "crm", "read")


def test_the_user_id_is_never_one_of_the_platforms(house: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_BEYOND", keys._LOWEST + 3)
    taken = {keys._LOWEST, keys._LOWEST + 2}
    assert keys.add(house, "crm", "read", taken=taken)[0] == keys._LOWEST + 1


def test_the_platforms_user_ids_are_read_from_the_mirror(tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.db"
    assert keys.platform_users(mirror) == set()
    connection = sqlite3.connect(mirror)
    assert keys.platform_users(mirror) == set()
    connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO users VALUES (?)", [(412345,), (9000001,)])
    connection.commit()
    connection.close()
    assert keys.platform_users(mirror) == {412345, 9000001}


@pytest.mark.parametrize(
    ("name", "scope", "collections"),
    [
        ("", "read", None),
        ("a\nb", "read", None),
        ("crm", "all", None),
        ("crm", "read", []),
        ("crm", "read", ["../x"]),
    ],
)
def test_nonsense_is_refused(house: Database, name: str, scope: str, collections: list[str] | None) -> None:
    with pytest.raises(Refused):
        keys.add(house, name, scope, collections)


def test_use_is_noted(house: Database) -> None:
    user_id, secret = keys.add(house, "crm", "read")
    assert keys.everything(house)[0].used_at is None
    keys.check(house, str(user_id), secret)
    house.write(lambda tx: None)
    assert keys.everything(house)[0].used_at is not None
