create or replace function tasker.detach_lifecycle(p_table regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- as the caller: only the owner of a table takes triggers off it
  execute format('drop trigger if exists tasker_start_attached on %s', p_table);
  execute format('drop trigger if exists tasker_keep_attached_key on %s', p_table);
  perform tasker.record_detachment(p_table);
end
$$;
comment on function tasker.detach_lifecycle(regclass) is
  'Takes the lifecycle off a table: its rows can''t be moved any more, its log stays. For operators who own the table.';
