"""`python -m evals`: each module that `main` lists is one subcommand, with `add_parser` and `run`."""
