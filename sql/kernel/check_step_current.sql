create or replace function tasker.check_step_current() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entity uuid;
begin
  -- runs after the whole statement: the kernel ends a row and appends its successor in one statement
  select f.workflow_step_uuid
    into v_entity
    from flipped f
   where (select n.sort_key from tasker.workflow_step_transitions n
           where n.workflow_step_uuid = f.workflow_step_uuid and n.sort_key = f.sort_key + 1
           limit 1) is null
   limit 1;
  if found then
    perform tasker.raise_error('TK409', format('step %s would be left without a current state', v_entity),
                               jsonb_build_object('kind', 'step', 'uuid', v_entity),
                               'most_recent moves to the successor when a transition is appended; never set it by hand.');
  end if;
  return null;
end
$$;
comment on function tasker.check_step_current() is 'A row may lose most_recent only to its successor.';

create or replace trigger check_current
  after update on tasker.workflow_step_transitions
  referencing new table as flipped
  for each statement execute function tasker.check_step_current();
comment on trigger check_current on tasker.workflow_step_transitions is 'Every entity keeps exactly one current row.';

alter table tasker.workflow_step_transitions enable always trigger check_current;
