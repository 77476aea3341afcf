"""`python -m fedroam` is the command line."""

from fedroam.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
