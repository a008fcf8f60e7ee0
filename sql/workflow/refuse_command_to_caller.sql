create or replace function tasker.refuse_command_to_caller(p_operation text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  -- who calls the function that calls this one as its owner
  v_role name := case current_setting('role') when 'none' then session_user else current_setting('role')::name end;
begin
  if not has_function_privilege(
       v_role, coalesce(to_regprocedure(format('tasker.%I(uuid, text, text, text)', coalesce(p_operation, 'give_up_task'))),
                        'tasker.give_up_task(uuid, text, text, text)'::regprocedure), 'execute') then
    perform tasker.raise_error('TK403', format('role %s may not do this: %s', v_role, coalesce(p_operation, 'a manual action')),
                               jsonb_build_object('role', v_role, 'operation', p_operation),
                               'Manual actions are for operators.');
  end if;
end
$$;
comment on function tasker.refuse_command_to_caller(text) is
  'Raises TK403 when a generic door is asked for a command whose own function the caller may not call: a worker moves tasks, it does not cancel or resolve them.';
