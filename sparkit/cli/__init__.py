"""The `sparkit` command: thin files, one a command, each exposing `command`, imported only when it is called."""
