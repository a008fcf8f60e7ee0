"""A worker with nothing but a PostgreSQL driver: claims, reports, drives, comes back after every lost connection.

Ends when every task has ended. A report whose answer was lost is sent again: it may have been committed.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb


def report_of(claim: dict[str, Any]) -> dict[str, Any]:
    """Every third step fails at its first attempt."""
    fails = claim["name"].endswith(("0", "3", "6", "9")) and claim["attempt"] == 1
    return {
        "step_uuid": str(claim["workflow_step_uuid"]),
        "claim_uuid": str(claim["claim_uuid"]),
        "success": not fails,
        "category": "transient",
        "result": {"by": claim["attempt"]},
    }


def work(dsn: str, unreported: list[dict[str, Any]]) -> bool:
    """Work until everything has ended (True) or the worker is to register again (False)."""
    with psycopg.connect(dsn, autocommit=True, application_name="plain_worker", row_factory=dict_row) as connection:
        call = connection.execute
        worker = call("select tasker.register_worker('plain', '{}', 10) as uuid").fetchone()["uuid"]  # type: ignore[index]
        while True:
            if unreported:
                call("select * from tasker.complete_steps(%s)", [Jsonb(unreported)]).fetchall()
                unreported.clear()
            call("select tasker.orchestrate()")
            call("select tasker.tick()")
            try:
                claims = call("select * from tasker.claim_steps(%s, null, 5)", [worker]).fetchall()
            except psycopg.Error as refused:
                if refused.sqlstate == "TK409":
                    return False
                raise
            unreported += [report_of(claim) for claim in claims]
            if not claims:
                left = call("select exists (select from tasker.tasks where completed_at is null) as left").fetchone()
                if not left["left"]:  # type: ignore[index]
                    return True
                time.sleep(0.02)


def main(dsn: str) -> None:
    unreported: list[dict[str, Any]] = []
    while True:
        with contextlib.suppress(psycopg.OperationalError, psycopg.InterfaceError):
            if work(dsn, unreported):
                return
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
