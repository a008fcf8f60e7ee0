create or replace function tasker.check_task_transitions() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  -- Lookups are scalar or LATERAL with LIMIT, never EXISTS: that could be planned as a hash over the whole log.
  select a.task_uuid as entity_uuid, a.lifecycle, a.from_state, a.event, a.to_state
    into v_bad
    from appended a
    left join lateral (select p.to_state, p.lifecycle, p.namespace, p.most_recent
                         from tasker.task_transitions p
                        where p.task_uuid = a.task_uuid and p.sort_key = a.sort_key - 1
                        limit 1) previous on true
   where case
           when a.sort_key = 1 then
             a.event <> 'create'
             or (select l.initial_state
                   from tasker.tasks e
                   join tasker.lifecycles l on l.lifecycle = e.lifecycle
                  where e.task_uuid = a.task_uuid and e.lifecycle = a.lifecycle and e.namespace = a.namespace
                  limit 1) is distinct from a.to_state
           else
             (select true
                from tasker.lifecycle_transitions r
               where r.lifecycle = a.lifecycle and r.from_state = a.from_state
                 and r.event = a.event and r.to_state = a.to_state
               limit 1) is null
             or previous.to_state is distinct from a.from_state
             or previous.lifecycle is distinct from a.lifecycle
             or previous.namespace is distinct from a.namespace
             or previous.most_recent
         end
      -- the newest row, and only it, is the current one; that there are no two of them the index sees to
      or (not a.most_recent and (select n.sort_key
                                   from tasker.task_transitions n
                                  where n.task_uuid = a.task_uuid and n.sort_key = a.sort_key + 1
                                  limit 1) is null)
   limit 1;
  if found then
    perform tasker.refuse_transition('task', v_bad.entity_uuid, v_bad.lifecycle, v_bad.from_state, v_bad.event, v_bad.to_state);
  end if;
  return null;
end
$$;
comment on function tasker.check_task_transitions() is
  'Refuses every appended row that is not a transition of its lifecycle from the current state, whoever appends it.';

create or replace trigger check_transitions
  after insert on tasker.task_transitions
  referencing new table as appended
  for each statement execute function tasker.check_task_transitions();
comment on trigger check_transitions on tasker.task_transitions is 'The last wall: no illegal transition can be stored.';

alter table tasker.task_transitions enable always trigger check_transitions;
