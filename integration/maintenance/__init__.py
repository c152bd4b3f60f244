"""What keeps an installation well: backup and restore, verify, doctor, the first configuration."""
