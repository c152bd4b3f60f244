"""Maintenance of an installation: backup, restore, upgrade, verify, doctor."""
