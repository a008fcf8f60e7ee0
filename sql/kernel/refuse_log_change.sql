create or replace function tasker.refuse_log_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.raise_error(
    'TK409', format('%s is append-only: %s is not allowed', tg_table_name, tg_op),
    jsonb_build_object('table', tg_table_name, 'operation', tg_op),
    'State changes only by appending a transition: call transition_task or transition_step.');
  return null;
end
$$;
comment on function tasker.refuse_log_change() is 'Refuses changes of rows that are evidence, for every role.';
