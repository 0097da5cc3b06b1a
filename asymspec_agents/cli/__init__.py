"""The `asymspec` command: `frame` runs a command line, and each module that `main` lists is one
subcommand.

A subcommand's module has `add_parser(subparsers)` and `run(args) -> int`; whatever it needs beyond the base
installation it imports when it runs.
"""
