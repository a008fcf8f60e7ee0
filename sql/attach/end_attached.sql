create or replace function tasker.end_attached() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update tasker.attached_transitions t set most_recent = false, updated_at = clock_timestamp()
   where t.attachment_uuid = new.attachment_uuid and t.entity_key = new.entity_key and t.most_recent;
  new.most_recent := true;
  return new;
end
$$;
comment on function tasker.end_attached() is
  'Takes most_recent from the newest entry of a row for the successor that move_attached has filled in. A trigger, so that nobody who may move rows can end an entry alone.';

-- after move_attached, which comes first by its name and leaves most_recent open
create or replace trigger move_attached_ends
  before insert on tasker.attached_transitions
  for each row when (new.most_recent is null)
  execute function tasker.end_attached();
comment on trigger move_attached_ends on tasker.attached_transitions is 'The entry before ends. With the owner''s rights, unlike move_attached.';
alter table tasker.attached_transitions enable always trigger move_attached_ends;
