create or replace function tasker.handler_missing(p_namespace text, p_handler text) returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_able   boolean;
  v_others text;
begin
  select bool_or(w.handlers is null or p_handler = any (w.handlers)),
         string_agg(distinct format('%s (%s)', w.name, coalesce(nullif(array_to_string(w.handlers[:10], ', '), ''), 'none')
                                    || case when cardinality(w.handlers) > 10 then ', ...' else '' end), '; ')
           filter (where tasker.may_see_worker(w.worker_uuid))
    into v_able, v_others
    from tasker.workers w
    join tasker.worker_transitions c on c.worker_uuid = w.worker_uuid and c.most_recent
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and s.phase in ('idle', 'busy')
   where w.shutdown_requested_at is null and (w.namespaces is null or p_namespace = any (w.namespaces));
  return case when v_able then null
              when v_able is null then 'no worker for it is registered and alive'
              else format('no living worker has handler %s', p_handler) || coalesce('; there are ' || v_others, '') end;
end
$$;
comment on function tasker.handler_missing(text, text) is
  'In words that no living worker would take steps of this handler, and which handlers those have that are there; null if one would.';
