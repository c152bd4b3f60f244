"""Maintenance of an installation: backup, restore, verify, doctor, first configuration."""
