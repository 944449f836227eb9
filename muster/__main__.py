"""`python -m muster` is the command `muster`."""

from muster.cli import main

if __name__ == "__main__":
    main()
