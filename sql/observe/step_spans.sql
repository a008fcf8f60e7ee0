create or replace function tasker.step_spans(
  p_task_uuid     uuid,
  p_after_ordinal int default 0,
  p_limit         int default 200,
  out workflow_step_uuid uuid,
  out ordinal      int,
  out name         text,
  out state        text,
  out phase        text,
  out from_at      timestamptz,
  out until_at     timestamptz,
  out requested_by text
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  if p_limit is null or p_limit not between 1 and 1000 then
    perform tasker.raise_error('TK400', 'a page holds 1 to 1,000 steps', jsonb_build_object('limit', p_limit));
  end if;
  return query
  select s.workflow_step_uuid, s.ordinal, s.name, l.to_state, x.phase, l.created_at,
         case when not x.is_terminal then coalesce(l.left_at, clock_timestamp()) else l.left_at end, l.requested_by
    from (select s.workflow_step_uuid, s.ordinal, s.name from tasker.workflow_steps s
           where s.task_uuid = p_task_uuid and s.ordinal > coalesce(p_after_ordinal, 0) and tasker.may_see(s.namespace)
           order by s.ordinal limit p_limit) s
   cross join lateral (select t.lifecycle, t.to_state, t.sort_key, t.created_at, t.metadata ->> 'requested_by' as requested_by,
                              lead(t.created_at) over (order by t.sort_key) as left_at
                         from tasker.workflow_step_transitions t where t.workflow_step_uuid = s.workflow_step_uuid) l
    join tasker.lifecycle_states x on x.lifecycle = l.lifecycle and x.state = l.to_state
   order by s.ordinal, l.sort_key;
end
$$;
comment on function tasker.step_spans(uuid, int, int) is
  'From when until when each step of a task was in which state, up to p_limit steps from behind p_after_ordinal: what a Gantt chart draws. until_at is now for a state that is not over, and null for the last state of a step that has ended.';
