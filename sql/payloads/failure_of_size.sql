create or replace function tasker.failure_of_size(p_report jsonb, p_namespace text) returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select jsonb_build_object('success', false, 'category', 'permanent', 'error', jsonb_build_object(
           'type', 'payload_too_large', 'message', tasker.too_large('its result', octet_length(p_report::text), p_namespace, n.payload_limit)))
    from tasker.task_namespaces n
   where n.namespace = p_namespace and octet_length(p_report::text) > n.payload_limit
$$;
comment on function tasker.failure_of_size(jsonb, text) is
  'What the engine reports in place of a report that is over the limit of its namespace; null for one that is not.';
