"""What a service's tests need to know: where the fixtures come from, and where the service is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

pytest_plugins = ["pgtasker.testing"]
