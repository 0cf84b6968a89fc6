"""`python -m parley.cli` is the command `parley`."""

from parley.cli import main

main()
