"""WSGI parts shared by receiver, dashboard and facade."""

BLOCKING_THREADS = 320
"""Requests at work at once. Live streams hold a thread each and may have half of them."""
