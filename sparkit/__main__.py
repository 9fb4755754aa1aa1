"""`python -m sparkit` is the `sparkit` command."""

from sparkit.cli.app import main

if __name__ == "__main__":
    main()
