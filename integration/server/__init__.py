"""Processes of the product: supervisor, worker, and the control channel to the writer of a `data_dir`."""
