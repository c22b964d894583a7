"""`python -m sweep`, and `python sweep/__main__.py` from a checkout that is not installed."""

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(
        Path(__file__).parents[1]
    )  # the checkout in place of this folder, whose modules are not top-level

from sweep.cli import main

main()
