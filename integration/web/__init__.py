"""WSGI middleware and routes shared by receiver, dashboard and facade."""

BLOCKING_THREADS = 320
"""Maximum number of concurrent requests.

Each live stream occupies a thread; streams can use half of them.
"""
