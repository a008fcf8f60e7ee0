create or replace function tasker.set_limit(
  p_scope       text,
  p_name        text,
  p_concurrency int default null,
  p_rate        int default null,
  p_per         interval default '1 second',
  p_namespace   text default null,
  p_request_id  text default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer    text := tasker.begin_request(p_request_id, 'set_limit', jsonb_build_array(p_scope, p_name, p_concurrency, p_rate, p_per, p_namespace));
  v_namespace text := tasker.limit_or_refuse(p_scope, p_name, p_namespace);
  v_old       tasker.limits;
  v_uuid      uuid;
begin
  if v_answer is not null then
    return v_answer::uuid;
  end if;
  if coalesce(p_concurrency, p_rate) is null or p_concurrency not between 1 and 10000 or p_rate not between 1 and 10000
     or (p_rate is not null and coalesce(p_per not between interval '1 millisecond' and interval '366 days', true)) then
    perform tasker.raise_error('TK400', 'a limit says how many run at once, how many start in a time, or both',
                               jsonb_build_object('concurrency', p_concurrency, 'rate', p_rate, 'per', p_per),
                               'Give a concurrency or a rate of 1 to 10,000, and for a rate a time of a millisecond to 366 days. pause_namespace stops everything.');
  end if;
  perform tasker.hold_limits(true);
  select * into v_old from tasker.limits l where l.scope = p_scope and l.name = p_name and l.namespace is not distinct from v_namespace;
  insert into tasker.limits as known (scope, name, namespace, breadth, concurrency, rate, per)
  values (p_scope, p_name, v_namespace,
          case p_scope when 'template' then 1 when 'namespace' then 3 else case when v_namespace is null then 4 else 2 end end,
          p_concurrency, p_rate, case when p_rate is not null then p_per end)
      on conflict (scope, name, namespace) do update
     set concurrency = excluded.concurrency, rate = excluded.rate, per = excluded.per
  returning limit_uuid into v_uuid;
  perform tasker.resize_limit(v_uuid, v_old.per);
  perform tasker.hand_on_slots(array[v_uuid], tasker.clock());
  perform tasker.end_request(p_request_id, v_uuid::text);
  return v_uuid;
end
$$;
comment on function tasker.set_limit(text, text, int, int, interval, text, text) is
  'Limits how many steps run at once (p_concurrency), how many start in any stretch of time as long as p_per (p_rate), or both: of a tool, in all namespaces or in p_namespace; of a namespace; of a template of p_namespace. Called again it sets both anew. Steps that run go on; those beyond wait in line and use up no attempt.';
