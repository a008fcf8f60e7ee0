create or replace function tasker.resume_namespace(
  p_namespace    text,
  p_reason       text,
  p_requested_by text,
  p_request_id   text default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'resume_namespace', jsonb_build_array(p_namespace, p_reason, p_requested_by));
begin
  if v_answer is not null then
    return;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  update tasker.task_namespaces n set paused_at = null
   where n.namespace = p_namespace and tasker.may_see(n.namespace);
  if not found then
    perform tasker.raise_error('TK404', format('there is no namespace %s', coalesce(p_namespace, 'null')), jsonb_build_object('namespace', p_namespace),
                               'See them in tasker.task_namespaces; ensure_namespace makes one.');
  end if;
  insert into tasker.audit_events (event, subject, namespace, requested_by, reason)
  values ('namespace_resumed', p_namespace, p_namespace, p_requested_by, p_reason);
  perform tasker.signal_work(array[p_namespace]);
  perform tasker.end_request(p_request_id, '');
end
$$;
comment on function tasker.resume_namespace(text, text, text, text) is
  'Hands out the steps of a paused namespace again, and tells its workers.';
