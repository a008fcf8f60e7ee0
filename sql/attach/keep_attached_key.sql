create or replace function tasker.keep_attached_key() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.raise_error('TK409', format('the key of a row of %s can''t change: its log stands under it', tg_relid::regclass),
                             jsonb_build_object('table', tg_relid::regclass),
                             'Insert a row with the new key, or detach the lifecycle first.');
  return null;
end
$$;
comment on function tasker.keep_attached_key() is
  'The trigger on an attached table that refuses a change of the key; its WHEN clause lets everything else pass. attach_lifecycle puts it there.';
