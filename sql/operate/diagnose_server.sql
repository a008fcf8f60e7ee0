create or replace function tasker.diagnose_server(
  p_after interval default '10 minutes',
  out topic    text,
  out severity text,
  out finding  text,
  out subject  text,
  out expected text,
  out actual   text,
  out mend     text
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  -- as whoever asks, who sees the sessions that he may see
  with hot as materialized (
    select c.oid, format('%I.%I', n.nspname, c.relname) as name, c.reltuples, c.reloptions, pg_relation_size(c.oid) as bytes,
           pg_stat_get_live_tuples(c.oid) as live_rows, pg_stat_get_dead_tuples(c.oid) as dead_rows
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where c.relkind = 'r' and (n.nspname = 'tasker' or n.nspname = 'pgmq' and c.relname like 'q\_%')
  )
  select 'server', 'error', 'role_that_is_missing', r.role, 'a role without login', 'missing', 'pgtasker migrate --again'
    from unnest(array['tasker_owner', 'tasker_client', 'tasker_worker', 'tasker_operator', 'tasker_auditor', 'tasker_monitor']) as r(role)
   where not exists (select from pg_roles x where x.rolname = r.role)
  union all
  select 'server', 'error', 'queue_that_is_missing', q.queue_name, format('table pgmq.q_%s', q.queue_name), 'missing',
         format('set role tasker_owner; select tasker.create_queue(%L); reset role', q.queue_name)
    from (select n.queue_name from tasker.task_namespaces n
          union select c.queue_name from tasker.work_queues c
          union select 'orchestration_step_results') q
   where not exists (select from hot h where h.name = format('%I.%I', 'pgmq', 'q_' || q.queue_name))
  union all
  select 'server', 'error', 'pgmq_without_a_function', 'pgmq.' || f.name, 'a function', 'missing',
         format('install pgmq %s again', (select i.value from tasker.schema_info i where i.key = 'pgmq_version'))
    from unnest(array['create', 'send', 'send_batch', 'pop', 'read', 'delete', 'metrics', 'drop_queue']) as f(name)
   where not exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'pgmq' and p.proname = f.name)
  union all
  select 'server', 'notice', 'pgmq_of_another_version', 'pgmq', i.value, e.extversion, 'pgtasker migrate --again'
    from pg_extension e join tasker.schema_info i on i.key = 'pgmq_version'
   where e.extname = 'pgmq' and i.value not in (e.extversion, 'unknown')
  union all
  -- what holds vacuum and the change feed back
  select 'server', 'warning', 'transaction_that_holds_vacuum_back', format('process %s of %s', a.pid, a.usename),
         format('transactions end within %s', p_after),
         format('%s since %s%s: %s', coalesce(a.state, 'at work'), a.xact_start, ', ' || nullif(a.application_name, ''), left(a.query, 100)),
         format('select pg_terminate_backend(%s)', a.pid)
    from pg_stat_activity a
   where a.pid <> pg_backend_pid() and a.backend_type = 'client backend' and a.xact_start < clock_timestamp() - p_after
     -- a snapshot matters in its database, a number on the whole server: the change feed waits for it
     and (a.backend_xid is not null or a.backend_xmin is not null and a.datname = current_database())
  union all
  select 'server', 'warning', 'prepared_transaction_that_holds_vacuum_back', format('%L of %s', x.gid, x.owner), format('ended within %s', p_after),
         format('prepared at %s in database %s', x.prepared, x.database), format('rollback prepared %L', x.gid)
    from pg_prepared_xacts x where x.prepared < clock_timestamp() - p_after
  union all
  select 'server', 'warning', 'replication_slot_that_holds_vacuum_back', s.slot_name, 'in use',
         format('%s, not in use, keeps what is %s transactions old%s', s.slot_type, greatest(age(s.xmin), age(s.catalog_xmin)),
                ' and WAL from ' || s.restart_lsn),
         format('select pg_drop_replication_slot(%L)', s.slot_name)
    from pg_replication_slots s where not s.active
  union all
  select 'server', 'notice', 'sessions_that_are_hidden', current_user, 'sees what other sessions do', format('%s sessions of others', count(*)),
         format('grant pg_read_all_stats to %I', session_user)
    from pg_stat_activity a where a.query = '<insufficient privilege>'
  having count(*) > 0
  union all
  -- dead rows and space
  select 'server', 'warning', 'table_with_dead_rows', h.name, 'vacuumed when a fifth of it is dead',
         format('%s dead rows, %s live ones, last vacuumed %s', h.dead_rows, h.live_rows,
                coalesce(greatest(pg_stat_get_last_vacuum_time(h.oid), pg_stat_get_last_autovacuum_time(h.oid))::text, 'never')),
         format('vacuum (analyze) %s', h.name)
    from hot h where h.dead_rows > 10000 and h.dead_rows > h.live_rows
  union all
  select 'server', 'notice', 'table_that_is_mostly_space', h.name, 'a few hundred bytes a row',
         format('%s for about %s rows', pg_size_pretty(h.bytes), h.live_rows), format('vacuum (full, analyze) %s  -- nobody reads or writes it meanwhile', h.name)
    from hot h where h.bytes > 32 * 1024 * 1024 and h.bytes > 32768 * greatest(h.live_rows, 1) and h.dead_rows <= 10000
  union all
  -- settings
  select 'server', v.severity, v.finding, s.name, v.expected, s.setting, format('alter system set %s = %s; select pg_reload_conf()', s.name, v.expected)
    from (values ('autovacuum', 'on', 'error', 'autovacuum_that_is_off'), ('track_counts', 'on', 'error', 'autovacuum_that_is_off'),
                 ('fsync', 'on', 'error', 'commits_that_a_crash_may_lose'), ('full_page_writes', 'on', 'error', 'commits_that_a_crash_may_lose'),
                 ('synchronous_commit', 'on', 'notice', 'commits_that_a_crash_may_lose')) as v(name, expected, severity, finding)
    join pg_settings s on s.name = v.name
   where s.setting <> v.expected and not (s.name = 'synchronous_commit' and s.setting in ('remote_write', 'remote_apply', 'local'))
  union all
  select 'server', 'error', 'autovacuum_that_is_off', h.name, 'autovacuum_enabled', array_to_string(h.reloptions, ', '),
         format('alter table %s reset (autovacuum_enabled)', h.name)
    from hot h where h.reloptions::text ~* 'autovacuum_enabled=(f|of|n|0)'
  union all
  select 'server', 'notice', 'autovacuum_that_comes_late', h.name, 'after a million dead rows at most',
         format('after %s', (h.reltuples * current_setting('autovacuum_vacuum_scale_factor')::numeric)::bigint),
         format('alter table %s set (autovacuum_vacuum_scale_factor = 0.01)', h.name)
    from hot h
   where h.reltuples * current_setting('autovacuum_vacuum_scale_factor')::numeric > 1000000
     and coalesce(h.reloptions::text, '') !~ 'autovacuum_vacuum_(scale_factor|max_threshold)'
$$;
comment on function tasker.diagnose_server(interval) is
  'What about the server hinders the engine: missing roles and queues, pgmq, what holds vacuum back, dead rows, settings; and what mends it. p_after: how long a transaction may take.';
