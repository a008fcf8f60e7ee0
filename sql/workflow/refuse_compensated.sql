create or replace function tasker.refuse_compensated(p_task_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_other uuid := (select t.task_uuid from tasker.tasks t where t.compensates_task_uuid = p_task_uuid);
begin
  if v_other is not null then
    perform tasker.raise_error('TK409', format('task %s does not go on: task %s undoes what it did', p_task_uuid, v_other),
                               jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'undone_by', v_other), 'Create it anew.');
  end if;
end
$$;
comment on function tasker.refuse_compensated(uuid) is 'Raises TK409 when an ended task would go on whose steps are being undone, or have been.';
