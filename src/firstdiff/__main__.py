"""`python -m firstdiff`: the command line, where its script is not on the path."""

from firstdiff.cli.main import main

main()
