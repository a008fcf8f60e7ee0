create or replace function tasker.set_payload_limits(p_namespace text, p_threshold int default null, p_limit int default null) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now tasker.task_namespaces;
begin
  perform tasker.refuse_foreign_namespace(p_namespace);
  select * into v_now from tasker.task_namespaces n where n.namespace = p_namespace for no key update;
  if not found then
    perform tasker.raise_error('TK404', format('there is no namespace %s', coalesce(p_namespace, 'null')), jsonb_build_object('namespace', p_namespace),
                               'See them in tasker.task_namespaces; ensure_namespace makes one.');
  end if;
  v_now.payload_threshold := coalesce(p_threshold, v_now.payload_threshold);
  v_now.payload_limit := coalesce(p_limit, v_now.payload_limit);
  if v_now.payload_threshold < 4096 or v_now.payload_limit > 134217728 or v_now.payload_threshold > v_now.payload_limit then
    perform tasker.raise_error('TK400', format('threshold %s and limit %s are no sizes for results', v_now.payload_threshold, v_now.payload_limit),
                               jsonb_build_object('threshold', v_now.payload_threshold, 'limit', v_now.payload_limit),
                               'Both are bytes, from 4096 to 134217728, and the threshold is not above the limit.');
  end if;
  update tasker.task_namespaces n
     set payload_threshold = v_now.payload_threshold, payload_limit = v_now.payload_limit
   where n.namespace = p_namespace
     and (n.payload_threshold, n.payload_limit) is distinct from (v_now.payload_threshold, v_now.payload_limit);
end
$$;
comment on function tasker.set_payload_limits(text, int, int) is
  'How big is big in a namespace, in bytes of JSON text: results over p_threshold stand in step_payloads, and what is over p_limit is refused (TK413). Null: as it was. For what is reported or created from then on.';
