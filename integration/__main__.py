"""`python -m integration COMMAND`: how the product starts processes of its own."""

from integration.cli import main

if __name__ == "__main__":
    main()
