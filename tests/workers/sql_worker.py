"""A worker with nothing but a PostgreSQL driver: claims ten steps at a time, reports them one by one, hangs at the 35th."""

from __future__ import annotations

import sys
import time

import psycopg


def main(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, application_name="sql_worker") as connection:
        row = connection.execute("select tasker.register_worker('sql_worker')").fetchone()
        assert row is not None
        reported = 0
        while claims := connection.execute(
            "select workflow_step_uuid, claim_uuid from tasker.claim_steps(%s, null, 10)", row
        ).fetchall():
            for claim in claims:
                if reported == 35:
                    print("hanging", flush=True)
                    time.sleep(3600)
                connection.execute("select tasker.complete_step(%s, %s)", claim)
                reported += 1
            connection.execute("select tasker.orchestrate()")


if __name__ == "__main__":
    main(sys.argv[1])
