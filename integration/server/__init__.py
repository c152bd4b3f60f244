"""How the product runs: one supervisor, one worker, one writer per `data_dir`, and how commands reach it."""

BLOCKING_THREADS = 320
"""Requests at work at once. Live streams hold a thread each and may have half of them (design.md §4)."""
