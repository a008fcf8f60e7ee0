create or replace function tasker.set_namespace_pause(p_namespace text, p_paused boolean, p_reason text, p_requested_by text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  update tasker.task_namespaces n set paused_at = case when p_paused then coalesce(n.paused_at, clock_timestamp()) end
   where n.namespace = p_namespace and tasker.may_see(n.namespace);
  if not found then
    perform tasker.raise_error('TK404', format('there is no namespace %s', coalesce(p_namespace, 'null')), jsonb_build_object('namespace', p_namespace),
                               'See them in tasker.task_namespaces; ensure_namespace makes one.');
  end if;
  insert into tasker.audit_events (event, subject, namespace, requested_by, reason)
  values (case when p_paused then 'namespace_paused' else 'namespace_resumed' end, p_namespace, p_namespace, p_requested_by, p_reason);
end
$$;
comment on function tasker.set_namespace_pause(text, boolean, text, text) is
  'Pauses a namespace or lets it go on, and keeps who and why.';
