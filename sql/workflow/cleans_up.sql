create or replace function tasker.cleans_up(p_task_uuid uuid) returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select from tasker.workflow_steps s
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
     where s.task_uuid = p_task_uuid and s.options ->> 'run_when' = 'all_finished'
       and x.counts_as not in ('satisfied', 'failed') and x.phase <> 'circuit_open')
$$;
comment on function tasker.cleans_up(uuid) is 'Whether a task has a step that runs however the others end, and that has not ended itself.';
