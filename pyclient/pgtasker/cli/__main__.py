"""``python -m pgtasker.cli``."""

import sys

from pgtasker.cli import main

if __name__ == "__main__":
    sys.exit(main())
