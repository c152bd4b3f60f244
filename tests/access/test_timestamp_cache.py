from __future__ import annotations

from integration.access.timestamp_cache import TimestampCache


def test_cache_returns_the_last_time_of_each_credential() -> None:
    cache = TimestampCache(max_entries=3, keep_seconds=30)
    assert cache.replace(b"one", 100.0) == 0.0
    assert cache.replace(b"two", 101.0) == 0.0
    assert cache.replace(b"one", 105.0) == 100.0
    assert (cache.get(b"one"), cache.get(b"two"), cache.get(b"three")) == (105.0, 101.0, 0.0)


def test_cache_drops_old_times() -> None:
    cache = TimestampCache(max_entries=3, keep_seconds=30)
    for number in range(1000):
        cache.replace(b"%d" % number, 30.0 * number)
        assert len(cache) <= 3


def test_recent_times_are_kept_above_the_maximum() -> None:
    cache = TimestampCache(max_entries=3, keep_seconds=30)
    for number in range(10):
        cache.replace(b"%d" % number, float(number))
    assert [cache.get(b"%d" % number) for number in range(10)] == [float(number) for number in range(10)]
