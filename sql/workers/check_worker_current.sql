create or replace function tasker.check_worker_current() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entity uuid;
begin
  select f.worker_uuid into v_entity
    from flipped f
   where (select n.sort_key from tasker.worker_transitions n
           where n.worker_uuid = f.worker_uuid and n.sort_key = f.sort_key + 1 limit 1) is null
   limit 1;
  if found then
    perform tasker.raise_error('TK409', format('worker %s would be left without a current state', v_entity),
                               jsonb_build_object('kind', 'worker', 'uuid', v_entity),
                               'most_recent moves to the successor when a transition is appended; never set it by hand.');
  end if;
  return null;
end
$$;
comment on function tasker.check_worker_current() is 'A row may lose most_recent only to its successor.';

create or replace trigger check_current
  after update on tasker.worker_transitions
  referencing new table as flipped
  for each statement execute function tasker.check_worker_current();
comment on trigger check_current on tasker.worker_transitions is 'Every entity keeps exactly one current row.';
alter table tasker.worker_transitions enable always trigger check_current;
