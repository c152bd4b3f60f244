from __future__ import annotations

from integration.access.timestamp_cache import TimestampCache


def test_each_credential_has_its_last_time() -> None:
    cache = TimestampCache(max_entries=3, keep_seconds=30)
    assert cache.replace(b"one", 100.0) == 0.0
    assert cache.replace(b"two", 101.0) == 0.0
    assert cache.replace(b"one", 105.0) == 100.0
    assert (cache.get(b"one"), cache.get(b"two"), cache.get(b"three")) == (105.0, 101.0, 0.0)


def test_old_times_do_not_accumulate() -> None:
    cache = TimestampCache(max_entries=3, keep_seconds=30)
    for number in range(1000):
        cache.replace(b"%d" % number, 30.0 * number)
        assert len(cache) <= 3


def test_a_recent_time_is_kept_however_many_there_are() -> None:
    cache = TimestampCache(max_entries=3, keep_seconds=30)
    for number in range(10):
        cache.replace(b"%d" % number, float(number))
    assert [cache.get(b"%d" % number) for number in range(10)] == [float(number) for number in range(10)]
