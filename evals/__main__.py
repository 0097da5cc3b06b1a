"""`python -m evals`."""

import sys

from .cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
