create or replace function tasker.metrics_fold(p_limit int default 200000) returns int
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_cursor   tasker.metrics_cursor;
  v_changes  tasker.changes[];
  v_next     bigint;  -- what comes after all that is begun
  v_end      bigint;  -- what comes after the last one counted
  v_snapshot pg_snapshot;
begin
  -- a standby can't count; it shows what its primary has counted
  if current_setting('transaction_read_only') = 'on' then
    return 0;
  end if;
  -- what is begun by now belongs to transactions older than this one, if its number comes after (see seal_audit)
  if pg_current_xact_id_if_assigned() is null then
    select case when q.is_called then q.last_value + 1 else q.last_value end into v_next from tasker.changes_change_id_seq q;
  end if;
  -- two scrapes at once: one counts, the other one shows what is there
  select * into v_cursor from tasker.metrics_cursor c for update skip locked;
  if not found then
    return 0;
  end if;
  v_snapshot := pg_current_snapshot();
  -- each change once, whenever it is committed
  select array_agg(c.change order by (c.change).change_id)
    into v_changes
    from (select c as change, sum(cardinality(c.transition_uuids)) over (order by c.change_id) - cardinality(c.transition_uuids) as rows_before
            from tasker.changes c
           where c.change_id >= v_cursor.settled_below and not v_cursor.counted @> c.change_id
           order by c.change_id
           limit least(p_limit, 20000)) c
   where c.rows_before < p_limit;
  if v_changes is null then
    return 0;
  end if;
  v_cursor.counted := v_cursor.counted + (select range_agg(int8range(c.change_id, c.change_id, '[]')) from unnest(v_changes) c);
  v_end := v_changes[cardinality(v_changes)].change_id + 1;
  -- Where the server has not come as far as the mark's number, it is another server, and nothing is under way.
  if v_cursor.folded_xid < pg_snapshot_xmin(v_snapshot) or v_cursor.folded_xid >= pg_snapshot_xmax(v_snapshot) then
    v_cursor.settled_below := greatest(v_cursor.settled_below, least(v_cursor.next_change_id, v_end));
    v_cursor.counted := v_cursor.counted - int8multirange(int8range(null, v_cursor.settled_below));
    v_cursor.folded_xid := null;
  end if;
  if v_cursor.folded_xid is null and v_next is not null then
    v_cursor.next_change_id := least(v_next, v_end);
    v_cursor.folded_xid := pg_current_xact_id();
  end if;

  with new_rows as materialized (
    select l.lifecycle, l.from_state, l.event, l.to_state, l.created_at, p.created_at as entered_at
      from unnest(v_changes) c
     cross join lateral unnest(c.transition_uuids) as u(transition_uuid)
     cross join lateral (
       select t.lifecycle, t.from_state, t.event, t.to_state, t.created_at, t.task_uuid as entity, null::text as key, t.sort_key
         from tasker.task_transitions t where c.log = 'task' and t.task_transition_uuid = u.transition_uuid
        union all
       select t.lifecycle, t.from_state, t.event, t.to_state, t.created_at, t.workflow_step_uuid, null, t.sort_key
         from tasker.workflow_step_transitions t where c.log = 'step' and t.workflow_step_transition_uuid = u.transition_uuid
        union all
       select t.lifecycle, t.from_state, t.event, t.to_state, t.created_at, t.worker_uuid, null, t.sort_key
         from tasker.worker_transitions t where c.log = 'worker' and t.worker_transition_uuid = u.transition_uuid
        union all
       select t.lifecycle, t.from_state, t.event, t.to_state, t.created_at, t.circuit_breaker_uuid, null, t.sort_key
         from tasker.circuit_breaker_transitions t where c.log = 'circuit_breaker' and t.circuit_breaker_transition_uuid = u.transition_uuid
        union all
       select t.lifecycle, t.from_state, t.event, t.to_state, t.created_at, t.attachment_uuid, t.entity_key, t.sort_key
         from tasker.attached_transitions t where c.log = 'attached' and t.attached_transition_uuid = u.transition_uuid) l
      left join lateral (
       select t.created_at from tasker.task_transitions t where c.log = 'task' and t.task_uuid = l.entity and t.sort_key = l.sort_key - 1
        union all
       select t.created_at from tasker.workflow_step_transitions t
        where c.log = 'step' and t.workflow_step_uuid = l.entity and t.sort_key = l.sort_key - 1
        union all
       select t.created_at from tasker.worker_transitions t where c.log = 'worker' and t.worker_uuid = l.entity and t.sort_key = l.sort_key - 1
        union all
       select t.created_at from tasker.circuit_breaker_transitions t
        where c.log = 'circuit_breaker' and t.circuit_breaker_uuid = l.entity and t.sort_key = l.sort_key - 1
        union all
       select t.created_at from tasker.attached_transitions t
        where c.log = 'attached' and t.attachment_uuid = l.entity and t.entity_key = l.key and t.sort_key = l.sort_key - 1) p on true
  ), counted as (
    insert into tasker.metrics_transition_totals as known (lifecycle, from_state, event, to_state, transitions)
    select n.lifecycle, coalesce(n.from_state, ''), n.event, n.to_state, count(*)
      from new_rows n group by n.lifecycle, n.from_state, n.event, n.to_state
        on conflict (lifecycle, from_state, event, to_state) do update set transitions = known.transitions + excluded.transitions
  ), timed as (
    insert into tasker.metrics_visit_totals as known (lifecycle, state, bucket, visits, seconds)
    select v.lifecycle, v.state, v.bucket, count(*), sum(v.seconds)
      from (select n.lifecycle, n.from_state as state, s.seconds,
                   (select count(*) from unnest(tasker.metrics_buckets()) as b(bound) where s.seconds > b.bound)::int as bucket
              from new_rows n
             cross join lateral (select extract(epoch from n.created_at - n.entered_at)::double precision as seconds) s
             where n.entered_at is not null) v
     group by v.lifecycle, v.state, v.bucket
        on conflict (lifecycle, state, bucket) do update
       set visits = known.visits + excluded.visits, seconds = known.seconds + excluded.seconds
  )
  update tasker.metrics_cursor c
     set settled_below = v_cursor.settled_below, counted = v_cursor.counted, next_change_id = v_cursor.next_change_id,
         folded_xid = v_cursor.folded_xid;
  return cardinality(v_changes);
end
$$;
comment on function tasker.metrics_fold(int) is
  'Adds what the change feed says is new to the counters of prometheus_metrics, each log row once, and says how many statements it took in. It begins no further one after p_limit log rows, so that a call ends in a few seconds however much there is.';
