"""Entry point of `python -m integration COMMAND`.

The product starts child processes this way.
"""

from integration.cli import main

if __name__ == "__main__":
    main()
