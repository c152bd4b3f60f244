"""Processes of the product: supervisor, worker, and the control channel between processes."""
