"""Entry point of `python -m integration COMMAND`, with which the product starts child processes."""

from integration.cli import main

if __name__ == "__main__":
    main()
