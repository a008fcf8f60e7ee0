create or replace function tasker.remove_limit(
  p_scope      text,
  p_name       text,
  p_namespace  text default null,
  p_request_id text default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer    text := tasker.begin_request(p_request_id, 'remove_limit', jsonb_build_array(p_scope, p_name, p_namespace));
  v_namespace text := tasker.limit_or_refuse(p_scope, p_name, p_namespace);
  v_uuid      uuid;
  v_waiting   tasker.limit_waits[];
begin
  if v_answer is not null then
    return;
  end if;
  perform tasker.hold_limits(true);
  delete from tasker.limits l where l.scope = p_scope and l.name = p_name and l.namespace is not distinct from v_namespace
  returning l.limit_uuid into v_uuid;
  if not found then
    perform tasker.raise_error('TK404', format('there is no limit for %s %s%s', p_scope, p_name, coalesce(' in namespace ' || v_namespace, '')),
                               jsonb_build_object('scope', p_scope, 'name', p_name, 'namespace', v_namespace), 'See them in tasker.limit_overview.');
  end if;
  with gone as (
    delete from tasker.limit_waits w where w.limit_uuid = v_uuid returning w.*
  )
  select array_agg((g.*)::tasker.limit_waits order by g.place) into v_waiting from gone g;
  -- claimed anew, they ask what other limits say
  perform tasker.enqueue_steps(array_agg(w.workflow_step_uuid order by w.place))
     from unnest(v_waiting) w
    cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                         where c.workflow_step_uuid = w.workflow_step_uuid and c.most_recent limit 1) c
    where c.sort_key = w.sort_key;
  perform tasker.end_request(p_request_id, '');
end
$$;
comment on function tasker.remove_limit(text, text, text, text) is
  'Takes a limit away: what waits for it is queued.';
