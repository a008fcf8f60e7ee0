create or replace function tasker.end_attached(p_attachment_uuid uuid, p_key text) returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  update tasker.attached_transitions t set most_recent = false, updated_at = clock_timestamp()
   where t.attachment_uuid = p_attachment_uuid and t.entity_key = p_key and t.most_recent
$$;
comment on function tasker.end_attached(uuid, text) is
  'Takes most_recent from the newest entry of a row, for the successor that move_attached is about to append. Without one the transaction can''t commit.';
