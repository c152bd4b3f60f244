"""Documentation site: built by Sphinx from `docs/`, served at `/help`."""
