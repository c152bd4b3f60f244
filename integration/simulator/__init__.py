"""A pretend platform as its own process: seeded account, live traffic, webhooks, faults on demand.

Its behaviour is written by hand from the specification and docs/platform.md, so that a mistake in the
product's own reading of them is not repeated here. It keeps everything in memory and forgets it when it ends.
"""
