create or replace function tasker.recent_throughput(
  p_minutes   int default 30,
  p_namespace text default null,
  out minute    timestamptz,
  out succeeded bigint,
  out failed    bigint
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
  v_now   timestamptz := date_trunc('minute', clock_timestamp());
  v_since timestamptz;
begin
  if p_minutes is null or p_minutes not between 1 and 1440 then
    perform tasker.raise_error('TK400', 'ask for 1 to 1,440 minutes', jsonb_build_object('minutes', p_minutes));
  elsif p_namespace is not null then
    perform tasker.refuse_foreign_namespace(p_namespace);
    v_bound := array[p_namespace];
  end if;
  -- a constant: a call of the clock for each row could not be looked up in an index
  v_since := v_now - make_interval(mins => p_minutes - 1);
  return query
  select m.minute, coalesce(r.succeeded, 0), coalesce(r.failed, 0)
    from generate_series(v_since, v_now, interval '1 minute') as m(minute)
    left join (select date_trunc('minute', a.recorded_at) as minute, count(*) filter (where a.success) as succeeded,
                      count(*) filter (where not a.success) as failed
                 from tasker.workflow_step_result_audit a
                where a.success in (true, false) and a.recorded_at >= v_since
                  and (v_bound is null or a.namespace = any (v_bound))
                group by 1) r on r.minute = m.minute
   order by m.minute;
end
$$;
comment on function tasker.recent_throughput(int, text) is
  'Reported results of the last minutes, minute by minute, the running one included: how many succeeded, how many failed. A bound login gets what it sees.';
