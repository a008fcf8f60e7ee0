create or replace function tasker.check_step_transitions() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  -- Lookups are scalar or LATERAL with LIMIT, never EXISTS: that could be planned as a hash over the whole log.
  select a.workflow_step_uuid as entity_uuid, a.lifecycle, a.from_state, a.event, a.to_state
    into v_bad
    from appended a
    left join lateral (select p.to_state, p.lifecycle, p.task_uuid, p.namespace, p.most_recent
                         from tasker.workflow_step_transitions p
                        where p.workflow_step_uuid = a.workflow_step_uuid and p.sort_key = a.sort_key - 1
                        limit 1) previous on true
   where case
           when a.sort_key = 1 then
             a.event <> 'create'
             -- by its key alone: with the task beside it all steps of the task might be read for each of them
             or (select case when e.lifecycle = a.lifecycle and e.task_uuid = a.task_uuid and e.namespace = a.namespace then l.initial_state end
                   from (select * from tasker.workflow_steps e where e.workflow_step_uuid = a.workflow_step_uuid limit 1) e
                   join tasker.lifecycles l on l.lifecycle = e.lifecycle
                  limit 1) is distinct from a.to_state
           else
             (select true
                from tasker.lifecycle_transitions r
               where r.lifecycle = a.lifecycle and r.from_state = a.from_state
                 and r.event = a.event and r.to_state = a.to_state
               limit 1) is null
             or previous.to_state is distinct from a.from_state
             or previous.lifecycle is distinct from a.lifecycle
             or previous.task_uuid is distinct from a.task_uuid
             or previous.namespace is distinct from a.namespace
             or previous.most_recent
         end
      -- the newest row, and only it, is the current one; that there are no two of them the index sees to
      or (not a.most_recent and (select n.sort_key
                                   from tasker.workflow_step_transitions n
                                  where n.workflow_step_uuid = a.workflow_step_uuid and n.sort_key = a.sort_key + 1
                                  limit 1) is null)
   limit 1;
  if found then
    perform tasker.refuse_transition('step', v_bad.entity_uuid, v_bad.lifecycle, v_bad.from_state, v_bad.event, v_bad.to_state);
  end if;
  return null;
end
$$;
comment on function tasker.check_step_transitions() is
  'Refuses every appended row that is not a transition of its lifecycle from the current state, whoever appends it.';

create or replace trigger check_transitions
  after insert on tasker.workflow_step_transitions
  referencing new table as appended
  for each statement execute function tasker.check_step_transitions();
comment on trigger check_transitions on tasker.workflow_step_transitions is 'The last wall: no illegal transition can be stored.';

alter table tasker.workflow_step_transitions enable always trigger check_transitions;
