create or replace function tasker.set_namespace_notifications(p_namespace text, p_mode text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_mode is null or p_mode not in ('off', 'work', 'tasks', 'all') then
    perform tasker.raise_error('TK400', format('%L is not a way to notify', p_mode), jsonb_build_object('mode', p_mode),
                               'Choose off, work, tasks or all.');
  end if;
  perform tasker.refuse_foreign_namespace(p_namespace);
  update tasker.task_namespaces n set notifications = p_mode where n.namespace = p_namespace;
  if not found then
    perform tasker.raise_error('TK404', format('there is no namespace %s', p_namespace), jsonb_build_object('namespace', p_namespace));
  end if;
end
$$;
comment on function tasker.set_namespace_notifications(text, text) is
  'What pg_notify is sent for: off nothing, work tasker_work, tasks also tasker_task_state, all also tasker_step_state.';
