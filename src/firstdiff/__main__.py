"""`python -m firstdiff`: the command line without the installed script."""

from firstdiff.cli.main import main

main()
