"""What every peer script does: read its arguments, time its handlers, and print one line of JSON at the end."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field


@dataclass
class Task:
    """The arguments: connection string, shape, instances, size, and how many handler calls that makes."""

    dsn: str
    shape: str
    instances: int
    size: int
    steps: int
    first: float = 0.0
    last: float = 0.0
    handled: int = 0
    create_seconds: float = 0.0
    delays: list[float] = field(default_factory=list)

    def handle(self) -> None:
        """Called by every handler, which does nothing else."""
        self.last = time.time()
        if not self.handled:
            self.first = self.last
        self.handled += 1

    @property
    def done(self) -> bool:
        return self.handled >= self.steps

    def finish(self) -> None:
        """Print what was measured and end, whatever threads are left."""
        told = {
            "create_seconds": self.create_seconds,
            "seconds": self.last - self.first,
            "handled": self.handled,
            "delays": self.delays,
        }
        print(json.dumps(told), flush=True)
        os._exit(0)


def arguments() -> Task:
    dsn, shape, instances, size, steps = sys.argv[1:6]
    return Task(dsn, shape, int(instances), int(size), int(steps))
