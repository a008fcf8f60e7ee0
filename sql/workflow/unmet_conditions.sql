create or replace function tasker.unmet_conditions(p_step_uuids uuid[]) returns uuid[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  if coalesce(cardinality(p_step_uuids), 0) = 0 then
    return array[]::uuid[];
  end if;
  return array(
    select s.workflow_step_uuid
      from unnest(p_step_uuids) as asked(workflow_step_uuid)
      -- judged before the first attempt only: what ran once is tried again, whatever its condition says by then
     cross join lateral (select * from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid and s.condition is not null and s.attempts = 0
                            and not s.left_out and s.handed_out_at is null limit 1) s
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.phase = 'pending'
     cross join lateral tasker.step_scope(s.workflow_step_uuid) over_what
     where jsonb_path_match(over_what.scope, s.condition, '{}', true) is not true);
end
$$;
comment on function tasker.unmet_conditions(uuid[]) is
  'Which of these ready steps have a condition that is not true over {"context", "inputs"}. What is missing or of another type is not true; nothing in the data raises an error.';
