create or replace function tasker.check_worker_transitions() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  select a.worker_uuid as entity_uuid, a.lifecycle, a.from_state, a.event, a.to_state
    into v_bad
    from appended a
    left join lateral (select p.to_state, p.lifecycle, p.most_recent from tasker.worker_transitions p
                        where p.worker_uuid = a.worker_uuid and p.sort_key = a.sort_key - 1 limit 1) previous on true
   where case
           when a.sort_key = 1 then
             a.event <> 'create'
             or (select l.initial_state from tasker.workers e join tasker.lifecycles l on l.lifecycle = e.lifecycle
                  where e.worker_uuid = a.worker_uuid and e.lifecycle = a.lifecycle limit 1) is distinct from a.to_state
           else
             (select true from tasker.lifecycle_transitions r
               where r.lifecycle = a.lifecycle and r.from_state = a.from_state and r.event = a.event
                 and r.to_state = a.to_state limit 1) is null
             or previous.to_state is distinct from a.from_state
             or previous.lifecycle is distinct from a.lifecycle
             or previous.most_recent
         end
      or a.most_recent is distinct from ((select n.sort_key from tasker.worker_transitions n
                                           where n.worker_uuid = a.worker_uuid and n.sort_key = a.sort_key + 1 limit 1) is null)
   limit 1;
  if found then
    perform tasker.refuse_transition('worker', v_bad.entity_uuid, v_bad.lifecycle, v_bad.from_state, v_bad.event, v_bad.to_state);
  end if;
  return null;
end
$$;
comment on function tasker.check_worker_transitions() is
  'Refuses every appended row that is not a transition of its lifecycle from the current state, whoever appends it.';

create or replace trigger check_transitions
  after insert on tasker.worker_transitions
  referencing new table as appended
  for each statement execute function tasker.check_worker_transitions();
comment on trigger check_transitions on tasker.worker_transitions is 'The last wall: no illegal transition can be stored.';
alter table tasker.worker_transitions enable always trigger check_transitions;
