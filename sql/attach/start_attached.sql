create or replace function tasker.start_attached() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_attachment tasker.attached_lifecycles;
  v_keys       text[];
begin
  select * into v_attachment from tasker.attached_lifecycles a where a.attached_table = tg_relid and a.detached_at is null;
  if found then
    execute format('select array_agg(a.%I::text) from appended a', v_attachment.key_column) into v_keys;
    perform tasker.start_attached_keys(v_attachment, v_keys);
  end if;
  return null;
end
$$;
comment on function tasker.start_attached() is
  'The trigger on an attached table: new rows start their lifecycle in the same transaction. attach_lifecycle puts it there.';
