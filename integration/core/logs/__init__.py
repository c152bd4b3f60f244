"""Log of the processes: format of a line, folding of repeated messages."""
