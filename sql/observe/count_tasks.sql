create or replace function tasker.count_tasks(
  p_namespace text default null,
  p_at_most   int  default 10000,
  out namespace text,
  out state     text,
  out phase     text,
  out tasks     int
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
begin
  if p_at_most is null or p_at_most not between 1 and 1000000 then
    perform tasker.raise_error('TK400', 'count up to 1 to 1,000,000 tasks', jsonb_build_object('at_most', p_at_most));
  elsif p_namespace is not null then
    perform tasker.refuse_foreign_namespace(p_namespace);
    v_bound := array[p_namespace];
  end if;
  return query
  select n.namespace, s.state, s.phase, c.tasks
    from unnest(coalesce(v_bound, array(select k.namespace from tasker.task_namespaces k))) as n(namespace)
   cross join (select x.state, min(x.phase) as phase from tasker.lifecycles l join tasker.lifecycle_states x on x.lifecycle = l.lifecycle
                where l.kind = 'task' group by x.state) s
   cross join lateral (select count(*)::int as tasks
                         from (select from tasker.task_transitions t
                                where t.namespace = n.namespace and t.to_state = s.state and t.most_recent and t.sort_key > 0 limit p_at_most) t) c
   where c.tasks > 0
   order by n.namespace, s.state;
end
$$;
comment on function tasker.count_tasks(text, int) is
  'How many tasks stand in each state, namespace by namespace; states without any are left out. Counted up to p_at_most and no further, so that it stays quick: that number means so many or more.';
