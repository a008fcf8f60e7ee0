-- Counts of what is sealed, so that a report on a year need not read a year; what they are made of stands in the logs.

create table tasker.audit_counts (
  width     int not null check (width in (10, 900, 86400)),
  bucket    timestamptz not null,
  log       text not null,
  changes   bigint not null default 0,
  rows      bigint not null default 0,
  tasks     bigint not null default 0,
  results   bigint not null default 0,
  failures  bigint not null default 0,
  unaudited bigint not null default 0,
  primary key (width, log, bucket)
) with (fillfactor = 80);
comment on table tasker.audit_counts is
  'How much of what stands in the logs and the archive is sealed, by ten seconds, quarter of an hour and day (UTC). seal_audit adds, purge_archive takes away, verify_audit counts again.';
comment on column tasker.audit_counts.width is 'Length of the bucket in seconds: 10, 900 or 86400.';
comment on column tasker.audit_counts.bucket is 'Where it begins.';
comment on column tasker.audit_counts.log is 'Which log, as in changes.';
comment on column tasker.audit_counts.changes is 'Statements, by recorded_at of changes.';
comment on column tasker.audit_counts.rows is 'Rows that they appended.';
comment on column tasker.audit_counts.tasks is 'Tasks created, by created_at of their first row in the log.';
comment on column tasker.audit_counts.results is 'Results with their audit row, by its recorded_at.';
comment on column tasker.audit_counts.failures is 'Those among them that report a failure.';
comment on column tasker.audit_counts.unaudited is 'Results without an audit row, by created_at of their row in the log: there must be none.';

comment on column tasker.audit_seals.next_change_id is
  'The change that comes after the last one that was begun when it was made; settled_below where the sealing transaction had a number before, since then nothing can be said.';
create index audit_seals_last_change_idx on tasker.audit_seals ((upper(change_ids)));
comment on index tasker.audit_seals_last_change_idx is 'Which seals reach beyond what is settled?';
create index task_transitions_first_idx on tasker.task_transitions (created_at) where sort_key = 1;
comment on index tasker.task_transitions_first_idx is 'Tasks in the order of their creation: one entry a task.';

-- A result belongs to the moment of its audit row, here and in the archive.
drop index tasker.archived_rows_worker_uuid_idx;
drop index tasker.archived_rows_failures_idx;
alter table tasker.archived_rows
  add column recorded_at timestamptz generated always as (
    to_timestamp((audit_content::jsonb ->> 7)::double precision / 1000000)) stored;
comment on column tasker.archived_rows.recorded_at is 'When the audit row was written, if it reported a result.';
comment on column tasker.archived_rows_other.recorded_at is 'As in archived_rows.';
create index archived_rows_recorded_at_idx on tasker.archived_rows (recorded_at) where recorded_at is not null;
comment on index tasker.archived_rows_recorded_at_idx is 'Results in a period.';
create index archived_rows_worker_uuid_idx on tasker.archived_rows (worker_uuid, recorded_at) where worker_uuid is not null;
comment on index tasker.archived_rows_worker_uuid_idx is 'What did a worker report?';
create index archived_rows_failures_idx on tasker.archived_rows (recorded_at) where success = false;
comment on index tasker.archived_rows_failures_idx is 'Failures in a period.';
create index archived_rows_first_idx on tasker.archived_rows (at) where log = 'task' and (content::jsonb ->> 11) = '1';
comment on index tasker.archived_rows_first_idx is 'Tasks in the order of their creation.';

-- What was sealed before there were counts.
with sealed as materialized (
  select c.log, c.transition_uuids, c.recorded_at
    from tasker.audit_seals s
   cross join lateral unnest(s.change_ids) as u(ids)
    join tasker.changes c on c.change_id >= lower(u.ids) and c.change_id < upper(u.ids)
), sealed_rows as materialized (
  select s.log, r.row_uuid from sealed s cross join lateral unnest(s.transition_uuids) as r(row_uuid) where s.log in ('task', 'step')
), marks as (
  select s.log, s.recorded_at as at, 1 as changes, cardinality(s.transition_uuids) as rows, 0 as tasks, 0 as results, 0 as failures, 0 as unaudited
    from sealed s
  union all
  select 'task', t.created_at, 0, 0, 1, 0, 0, 0
    from sealed_rows s join tasker.task_transitions t on t.task_transition_uuid = s.row_uuid and t.sort_key = 1
   where s.log = 'task'
  union all
  select 'task', a.at, 0, 0, 1, 0, 0, 0
    from tasker.archived_rows a where a.log = 'task' and (a.content::jsonb ->> 11) = '1'
  union all
  select 'step', a.recorded_at, 0, 0, 0, 1, (not a.success)::int, 0
    from sealed_rows s join tasker.workflow_step_result_audit a on a.workflow_step_transition_uuid = s.row_uuid
   where s.log = 'step'
  union all
  select 'step', a.recorded_at, 0, 0, 0, 1, (not a.success)::int, 0
    from tasker.archived_rows a where a.recorded_at is not null
  union all
  select 'step', t.created_at, 0, 0, 0, 0, 0, 1
    from sealed_rows s
    join tasker.workflow_step_transitions t on t.workflow_step_transition_uuid = s.row_uuid
    join tasker.lifecycle_transitions r on r.lifecycle = t.lifecycle and r.from_state = t.from_state and r.event = t.event
                                       and r.to_state = t.to_state and r.reports_result
   where s.log = 'step'
     and not exists (select from tasker.workflow_step_result_audit a where a.workflow_step_transition_uuid = s.row_uuid)
  union all
  select 'step', a.at, 0, 0, 0, 0, 0, 1
    from tasker.archived_rows a
   cross join lateral (select a.content::jsonb as content) c
    join tasker.lifecycle_transitions r on r.lifecycle = c.content ->> 6 and r.from_state = c.content ->> 8 and r.event = c.content ->> 9
                                       and r.to_state = c.content ->> 7 and r.reports_result
   where a.log = 'step' and a.audit_content is null
)
insert into tasker.audit_counts
select w.width, date_bin(make_interval(secs => w.width), m.at, '2000-01-01 00:00:00+00') as bucket, m.log,
       sum(m.changes), sum(m.rows), sum(m.tasks), sum(m.results), sum(m.failures), sum(m.unaudited)
  from marks m cross join (values (10), (900), (86400)) as w(width)
 where m.at is not null
 group by w.width, bucket, m.log;

-- It tells more columns now.
drop function if exists tasker.report_sample(text, timestamptz, timestamptz, int, text);
