"""`python -m parley.cli` is the command `parley`."""

from parley.cli.program import main

main()
