"""How the product runs: one supervisor, one worker, one writer per `data_dir`, and how commands reach it."""
