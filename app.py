"""Entry point of the command line. `python app.py --help` lists the commands."""

import sys

INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q -e . && .venv/bin/python app.py"
"""Line of README that installs the packages and runs a command. `tests/test_readme.py` compares both."""


def run():
    """Run the command line.

    Older versions of Python can parse this file, so that they print a message.
    """
    if sys.version_info < (3, 11):  # noqa: UP036
        major, minor = sys.version_info[:2]
        sys.exit(f"switchroom: Python 3.11 or newer is required, and this is {major}.{minor}.")
    try:
        from integration.cli import main

        main()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "integration":
            raise
        line = " ".join([INSTALL, *sys.argv[1:]])
        sys.exit(f"switchroom: the package {name} is missing. Run this in the folder of app.py:\n  {line}")


if __name__ == "__main__":
    run()
