"""The `asymspec` command: `main` has the frame, and each further module is one subcommand.

A subcommand's module has `add_parser(subparsers)` and `run(args) -> int`; whatever it needs beyond the base
installation it imports when it runs.
"""
