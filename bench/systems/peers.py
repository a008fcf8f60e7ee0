"""Peers, each in a process of its own, from an environment that is made when it is first needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.server import Database
from bench.systems import NotMeasured, Sample
from bench.workloads import Workload

SCRIPTS = Path(__file__).resolve().parents[1] / "peers"
ENVIRONMENT = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pgtasker" / "bench"


@cache
def python() -> Path:
    """The interpreter that has the Python peers installed."""
    wanted = (SCRIPTS / "requirements.txt").read_text("utf-8")
    folder = ENVIRONMENT / "python"
    note = folder / "installed.txt"
    if not note.exists() or note.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        _install(
            [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "-r", str(SCRIPTS / "requirements.txt")]
        )
        note.write_text(wanted, "utf-8")
    return folder / "bin" / "python"


@cache
def node() -> Path:
    """A folder with the Node peers installed."""
    if shutil.which("npm") is None:
        raise NotMeasured("there is no Node.js here")
    wanted = (SCRIPTS / "package.json").read_text("utf-8")
    folder = ENVIRONMENT / "node"
    note = folder / "installed.json"
    if not note.exists() or note.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(SCRIPTS / "package.json", folder)
        _install(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)])
        note.write_text(wanted, "utf-8")
    for script in SCRIPTS.glob("*.mjs"):  # modules are looked up from where a script stands
        shutil.copy(script, folder)
    return folder


def _install(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMeasured("could not be installed")


def _run_two(command: list[str], environment: dict[str, str], steps: int) -> Sample:
    """Two processes that share the work: the first has made everything when the second one comes."""
    workers: list[subprocess.Popen[str]] = []

    def told(worker: subprocess.Popen[str]) -> dict[str, float]:
        assert worker.stdout is not None
        for line in worker.stdout:
            if line.startswith("{"):
                said: dict[str, float] = json.loads(line)
                return said
        raise NotMeasured("failed")

    try:
        ready = []
        for name in ("first", "second"):
            workers.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    env={**environment, "BENCH_WORKER": name},
                )
            )
            ready.append(told(workers[-1]))
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        said = [told(worker) for worker in workers]
        while sum(one["handled"] for one in said) < steps:
            said = [told(worker) for worker in workers]
        begun = min(one["first"] for one in said if one["handled"])
        return Sample(ready[0]["create_seconds"], max(one["last"] for one in said) - begun, [])
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


@dataclass(frozen=True)
class Peer:
    """One peer: its name and version, and the script that runs it."""

    name: str
    script: str
    shapes: frozenset[str] = frozenset({"jobs", "chain", "fan", "wide", "latency"})

    def install(self) -> None:
        """Install it, once for all of its measurements."""
        node() if self.script.endswith(".mjs") else python()
        if self.script.startswith("pgflow"):
            node()

    def prepare(self, database: Database) -> None:
        """Everything is made by the script, before it begins to count."""

    def run(self, workload: Workload, database: Database) -> Sample:
        if workload.workers > 2 or workload.shape not in self.shapes:
            raise NotMeasured("")
        if self.script.endswith(".mjs"):
            command = ["node", str(node() / self.script)]
        else:
            command = [str(python()), str(SCRIPTS / self.script)]
        more = {}
        if self.script.startswith("pgflow"):
            folder = node() / "node_modules" / "@pgflow" / "core"
            more["PGFLOW_MIGRATIONS"] = str(folder / "dist" / "supabase" / "migrations")
        numbers = [workload.instances, workload.size, workload.steps]
        command += [database.dsn, workload.shape, *map(str, numbers)]
        if workload.workers == 2:
            return _run_two(command, {**os.environ, **more}, workload.steps)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            raise NotMeasured("failed")
        told = json.loads(done.stdout.splitlines()[-1])
        return Sample(told["create_seconds"], told["seconds"], told["delays"])
