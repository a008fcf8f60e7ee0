"""Generate the sync modules from the async ones, or check that they are up to date.

    python tools/unasync.py            # write
    python tools/unasync.py --check    # exit 1 and name the modules that are out of date

unasyncd pins an older rich than the command line uses, so it lives in an environment of its own,
build/unasync-venv, which is made on the first call. Which modules are generated is written in tools/unasync.toml.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = Path("tools/unasync.toml")
ENVIRONMENT = ROOT / "build" / "unasync-venv"
# The formatter is part of the result, so it is pinned as well.
REQUIREMENTS = ("unasyncd==0.10.1", "ruff==0.17.6")


def environment() -> Path:
    """Return the folder of unasyncd's programs, made if it is missing or holds other versions."""
    programs = ENVIRONMENT / "bin"
    marker = ENVIRONMENT / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS)
    if not marker.exists() or marker.read_text() != wanted:
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        marker.write_text(wanted)
    return programs


def generate(folder: Path, programs: Path) -> None:
    """Write the generated modules below ``folder``, which holds a copy of the sources."""
    # unasyncd looks for ruff in PATH, and exits with 1 when it wrote something.
    done = subprocess.run(
        [programs / "unasyncd", "--config", CONFIGURATION, "--write", "--force", "--quiet"],
        cwd=folder,
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    # What the interpreter ignores while it ends is no failure: its pool of processes may be gone before it says so.
    if done.returncode not in (0, 1) or "Traceback" in done.stderr.partition("Exception ignored in")[0]:
        raise SystemExit(f"unasyncd failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Generate or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 when something is out of date")
    check = parser.parse_args().check
    files: dict[str, str] = tomllib.loads((ROOT / CONFIGURATION).read_text())["tool"]["unasyncd"]["files"]
    programs = environment()
    outdated = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for source in [*files, str(CONFIGURATION), "pyproject.toml"]:
            (folder / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, folder / source)
        generate(folder, programs)
        for target in files.values():
            made, present = folder / target, ROOT / target
            if not made.exists():
                raise SystemExit(f"unasyncd did not write {target}")
            if not present.exists() or made.read_bytes() != present.read_bytes():
                outdated.append(target)
                if not check:
                    shutil.copyfile(made, present)
    for target in outdated:
        print(f"{target}: {'out of date, run python tools/unasync.py' if check else 'written'}")
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
