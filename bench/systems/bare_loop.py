"""The floor: rows, a log of their transitions, and two set-based statements a batch.

No retries, no leases, no timers, no audit: the least that a logged step could cost.
"""

from __future__ import annotations

import time

import psycopg

from bench.server import Database
from bench.systems import NotMeasured, Sample
from bench.workloads import Workload, traces

_SCHEMA = """
create table items (id bigint generated always as identity primary key, state text not null, missing int not null)
  with (fillfactor = 70);
create index on items (id) where state = 'ready';
create table edges (from_id bigint not null, to_id bigint not null, primary key (from_id, to_id));
create table log (id bigint generated always as identity primary key, item_id bigint not null, from_state text,
                  to_state text not null, at timestamptz not null default clock_timestamp());
create index on log (item_id);
"""
_CLAIM = """
with taken as (select id from items where state = 'ready' order by id limit %s for update skip locked),
     moved as (update items i set state = 'running' from taken t where i.id = t.id returning i.id),
     logged as (insert into log (item_id, from_state, to_state) select id, 'ready', 'running' from moved)
select array_agg(id) from moved
"""
_COMPLETE = """
with moved as (update items set state = 'done' where id = any (%(ids)s) returning id),
     counted as (select to_id, count(*)::int as n from edges where from_id = any (%(ids)s) group by to_id),
     freed as (update items i set missing = i.missing - c.n,
                                    state = case i.missing when c.n then 'ready' else i.state end
                 from counted c where i.id = c.to_id returning i.id, i.state)
insert into log (item_id, from_state, to_state)
select id, 'running', 'done' from moved union all select id, 'waiting', 'ready' from freed where state = 'ready'
"""
_EDGES = {
    "chain": "select n, n + 1 from generate_series(1, {rows}) n where n % {size} <> 0",
    "fan": "with f as (select b, b + n as m from generate_series(1, {rows}, {size} + 2) b,"
    " generate_series(1, {size}) n) select b, m from f union all select m, b + {size} + 1 from f",
}


def prepare(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute(_SCHEMA)


def run(workload: Workload, database: Database) -> Sample:
    if workload.workers > 1 or workload.shape == "latency":
        raise NotMeasured("")
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        begun = time.perf_counter()
        conn.execute(
            "insert into items (state, missing) select 'waiting', 0 from generate_series(1, %s)", [workload.steps]
        )
        if workload.shape in _EDGES:
            text = _EDGES[workload.shape].format(rows=workload.steps, size=workload.size)
            conn.execute(f"insert into edges {text}".encode())
        elif workload.shape == "traces":
            _copy_edges(conn, workload)
        conn.execute(
            "update items i set missing = (select count(*) from edges e where e.to_id = i.id),"
            " state = case when exists (select from edges e where e.to_id = i.id) then 'waiting' else 'ready' end"
        )
        conn.execute("insert into log (item_id, to_state) select id, state from items")
        create_seconds = time.perf_counter() - begun
        conn.execute("vacuum analyze")
        done, begun = 0, time.perf_counter()
        while done < workload.steps:
            row = conn.execute(_CLAIM, [workload.batch]).fetchone()
            assert row is not None and row[0], "nothing is ready"
            conn.execute(_COMPLETE, {"ids": row[0]})
            done += len(row[0])
        return Sample(create_seconds, time.perf_counter() - begun)


def _copy_edges(conn: psycopg.Connection[tuple[object, ...]], workload: Workload) -> None:
    before = 0
    with conn.cursor().copy("copy edges from stdin") as copy:
        for graph in traces(workload.instances):
            places = {step["name"]: before + n for n, step in enumerate(graph["steps"], 1)}
            for step in graph["steps"]:
                for name in step["depends_on"]:
                    copy.write_row((places[name], places[step["name"]]))
            before += len(places)
