"""Makes `tests.docs.documents` importable however pytest was started: `python -m pytest` alone adds this folder."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
