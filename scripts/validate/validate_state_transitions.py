"""The path that seed 000 names: `python scripts/validate/validate_state_transitions.py FILE`."""

import sys

from pgtasker.cli import main

sys.exit(main(["validate-transitions", *sys.argv[1:]]))
