"""Simulated platform with a seeded account, live traffic, webhooks and faults.

Its behaviour follows the specification and docs/platform.md and shares no code with the product's
interpretation of them, so that mistakes in the product are not repeated here. All data is kept in memory and
lost when the process ends.
"""
