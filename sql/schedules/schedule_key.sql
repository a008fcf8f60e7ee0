create or replace function tasker.schedule_key(p_schedule text, p_due_at timestamptz) returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select format('schedule:%s:%s', p_schedule, to_char(p_due_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'))
$$;
comment on function tasker.schedule_key(text, timestamptz) is 'Idempotency key of the one task that a schedule makes for one time.';
