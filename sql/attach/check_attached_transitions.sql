create or replace function tasker.check_attached_transitions() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  select a.attached_table, a.entity_key, a.lifecycle, a.from_state, a.event, a.to_state
    into v_bad
    from appended a
    left join lateral (select p.to_state, p.lifecycle, p.namespace, p.most_recent from tasker.attached_transitions p
                        where p.attachment_uuid = a.attachment_uuid and p.entity_key = a.entity_key and p.sort_key = a.sort_key - 1
                        limit 1) previous on true
   where case
           when a.sort_key = 1 then
             a.event <> 'create'
             or (select l.initial_state
                   from tasker.attached_lifecycles e
                   join tasker.lifecycles l on l.lifecycle = e.lifecycle
                  where e.attachment_uuid = a.attachment_uuid and e.lifecycle = a.lifecycle and e.namespace = a.namespace
                  limit 1) is distinct from a.to_state
           else
             (select true from tasker.lifecycle_transitions r
               where r.lifecycle = a.lifecycle and r.from_state = a.from_state and r.event = a.event and r.to_state = a.to_state
               limit 1) is null
             or previous.to_state is distinct from a.from_state
             or previous.lifecycle is distinct from a.lifecycle
             or previous.namespace is distinct from a.namespace
             or previous.most_recent
         end
      -- as it stands now: a later entry of the same statement may have ended it
      or (select s.most_recent from tasker.attached_transitions s where s.attached_transition_uuid = a.attached_transition_uuid)
         is distinct from ((select n.sort_key from tasker.attached_transitions n
                             where n.attachment_uuid = a.attachment_uuid and n.entity_key = a.entity_key
                               and n.sort_key = a.sort_key + 1 limit 1) is null)
   limit 1;
  if found then
    perform tasker.refuse_attached(v_bad.attached_table, v_bad.entity_key, v_bad.lifecycle, v_bad.from_state, v_bad.event, v_bad.to_state);
  end if;
  return null;
end
$$;
comment on function tasker.check_attached_transitions() is
  'Refuses every appended row that is not a transition of its lifecycle from the current state, whoever appends it.';

create or replace trigger check_transitions
  after insert on tasker.attached_transitions
  referencing new table as appended
  for each statement execute function tasker.check_attached_transitions();
comment on trigger check_transitions on tasker.attached_transitions is 'The last wall: no illegal transition can be stored.';
alter table tasker.attached_transitions enable always trigger check_transitions;
