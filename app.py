"""Entry point of the command line. `python app.py --help` lists the commands."""

from integration.cli import main

if __name__ == "__main__":
    main()
