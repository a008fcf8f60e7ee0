create or replace function tasker.check_attached_current() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from tasker.attached_transitions n
                  where n.attachment_uuid = new.attachment_uuid and n.entity_key = new.entity_key and n.sort_key = new.sort_key + 1) then
    perform tasker.raise_error('TK409', format('%s %s would be left without a current state', new.attached_table, new.entity_key),
                               jsonb_build_object('kind', 'custom', 'table', new.attached_table, 'key', new.entity_key),
                               'most_recent moves to the successor when a transition is appended; never set it by hand.');
  end if;
  return null;
end
$$;
comment on function tasker.check_attached_current() is 'An entry may lose most_recent only to its successor.';

-- At commit, and so for each row: move_attached ends a row in a statement of its own before its successor stands.
drop trigger if exists check_current on tasker.attached_transitions;
create constraint trigger check_current
  after update on tasker.attached_transitions
  deferrable initially deferred
  for each row execute function tasker.check_attached_current();
comment on trigger check_current on tasker.attached_transitions is 'Every row keeps exactly one current entry.';
alter table tasker.attached_transitions enable always trigger check_current;
