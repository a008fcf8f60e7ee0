create or replace function tasker.custom_guard_holds(p_guard text, p_key text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name     text;
  v_function regprocedure;
  v_holds    boolean;
begin
  if p_guard = 'always' then
    return true;
  end if;
  select g.guard_function into v_name from tasker.guards g where g.guard = p_guard and g.applies_to = 'custom';
  v_function := to_regprocedure(v_name);
  if v_function is null then
    perform tasker.raise_error('TK404', format('guard %s has no function', p_guard), jsonb_build_object('guard', p_guard, 'function', v_name),
                               'Create the function and register it: register_guard.');
  end if;
  -- runs with the rights of the caller, never with ours: foreign code
  execute format('select %s($1)', v_function::regproc) into v_holds using p_key;
  return coalesce(v_holds, false);
end
$$;
comment on function tasker.custom_guard_holds(text, text) is
  'Whether a guard of one''s own holds for a row: its function is called as the caller. Null counts as false.';
