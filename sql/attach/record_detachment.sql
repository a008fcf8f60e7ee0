create or replace function tasker.record_detachment(p_table regclass) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from pg_trigger t where t.tgrelid = p_table and t.tgfoid = 'tasker.start_attached()'::regprocedure) then
    perform tasker.raise_error('TK403', format('%s still starts lifecycles', p_table), jsonb_build_object('table', p_table),
                               'Call detach_lifecycle, which takes its triggers off the table.');
  end if;
  update tasker.attached_lifecycles a set detached_at = clock_timestamp(), detached_by = session_user
   where a.attached_table = p_table and a.detached_at is null and tasker.may_see(a.namespace);
  if not found then
    perform tasker.raise_error('TK404', format('%s has no lifecycle', p_table), jsonb_build_object('table', p_table),
                               'Attached tables stand in tasker.attached_lifecycles.');
  end if;
end
$$;
comment on function tasker.record_detachment(regclass) is 'The part of detach_lifecycle that needs the owner''s rights.';
