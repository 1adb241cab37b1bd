"""`python -m attune.cli`: the command line, for processes that know their interpreter alone."""

from attune.cli import main

if __name__ == "__main__":
    main()
