create or replace function tasker.register_guard(p_guard text, p_function regprocedure, p_description text) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_problems jsonb;
begin
  perform tasker.refuse_bound_login('guards are shared by all');
  select jsonb_agg(jsonb_build_object('path', p.path, 'message', p.message))
    into v_problems
    from (select 'guard' as path, 'a guard needs a name of lower-case letters, digits and underscores' as message
           where coalesce(p_guard, '') !~ '^[a-z][a-z0-9_]{0,62}$'
           union all
          select 'guard', format('%s is a guard of the engine', p_guard)
           where exists (select from tasker.guards g where g.guard = p_guard and g.applies_to <> 'custom')
           union all
          select 'function', 'the function must take the key of a row as one text, and return boolean'
           where not exists (select from pg_proc f
                              where f.oid = p_function and f.prokind = 'f' and not f.proretset
                                and f.pronargs = 1 and f.proargtypes[0] = 'text'::regtype and f.prorettype = 'boolean'::regtype)
           union all
          select 'description', 'say in words what must be true: it is the HINT of a refusal'
           where coalesce(p_description, '') = '') p;
  if v_problems is not null then
    perform tasker.raise_error('TK400', format('guard %s can''t be registered: %s', coalesce(p_guard, 'null'), v_problems -> 0 ->> 'message'),
                               jsonb_build_object('problems', v_problems), 'Mend every problem in DETAIL and register it again.');
  end if;
  insert into tasker.guards (guard, applies_to, description, guard_function)
  values (p_guard, 'custom', p_description, p_function::text)
      on conflict (guard) do update set description = excluded.description, guard_function = excluded.guard_function;
  return p_guard;
end
$$;
comment on function tasker.register_guard(text, regprocedure, text) is
  'Makes a function of one''s own a guard for lifecycles of kind custom: it takes the key of a row and says whether the move may be made. It runs with the rights of whoever moves the row.';
