create or replace function tasker.find_tasks(
  p_namespace text default null,
  p_name      text default null,
  p_state     text default null,
  p_phase     text default null,
  p_before    uuid default null,
  p_limit     int  default 50,
  out task_uuids  uuid[],
  out next_before uuid
) returns record
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
  -- A rare state among many tasks of a name: no call looks at more, and next_before leads on to older ones.
  v_look_at constant int := case when coalesce(p_state, p_phase) is null then p_limit else 20000 end;
  v_bound  text[] := tasker.bound_namespaces();
  v_before uuid := coalesce(p_before, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  v_spaces text[];
  v_states text[];
  v_looked uuid[];
begin
  if p_limit is null or p_limit not between 1 and 1000 then
    perform tasker.raise_error('TK400', 'a page holds 1 to 1,000 tasks', jsonb_build_object('limit', p_limit));
  elsif p_namespace is not null then
    perform tasker.refuse_foreign_namespace(p_namespace);
  end if;
  -- Keys are UUIDv7, so the newest come first when an index is walked backwards.
  if coalesce(p_namespace, p_name, p_state, p_phase) is null and v_bound is null then
    task_uuids := array(select t.task_uuid from tasker.tasks t where t.task_uuid < v_before order by t.task_uuid desc limit p_limit);
  else
    v_spaces := case when p_namespace is not null then array[p_namespace]
                     else coalesce(v_bound, array(select n.namespace from tasker.task_namespaces n)) end;
    v_states := array(select distinct s.state
                        from tasker.lifecycles l join tasker.lifecycle_states s on s.lifecycle = l.lifecycle
                       where l.kind = 'task' and (p_state is null or s.state = p_state) and (p_phase is null or s.phase = p_phase));
    if p_name is null then
      -- Each namespace and state from a place of its own. Compared as rows, not one by one: with an equal namespace and
      -- state the planner would rather walk all tasks from the newest on until it has met enough of them.
      task_uuids := array(
        select c.task_uuid
          from unnest(v_spaces) as n(namespace)
         cross join unnest(v_states) as s(state)
         cross join lateral (select c.task_uuid from tasker.task_transitions c
                              where (c.namespace, c.to_state, c.task_uuid) < (n.namespace, s.state, v_before)
                                and (c.namespace, c.to_state) >= (n.namespace, s.state) and c.most_recent = true and c.sort_key > 0
                              order by c.namespace desc, c.to_state desc, c.task_uuid desc limit p_limit) c
         order by c.task_uuid desc
         limit p_limit);
    else
      v_looked := array(
        select t.task_uuid
          from unnest(v_spaces) as n(namespace)
         cross join lateral (select t.task_uuid from tasker.tasks t
                              where (t.namespace, t.name, t.task_uuid) < (n.namespace, p_name, v_before)
                                and (t.namespace, t.name) >= (n.namespace, p_name)
                              order by t.namespace desc, t.name desc, t.task_uuid desc limit v_look_at) t
         order by t.task_uuid desc
         limit v_look_at);
      task_uuids := array(
        select u.task_uuid
          from unnest(v_looked) with ordinality as u(task_uuid, place)
         cross join lateral (select c.to_state from tasker.task_transitions c
                              where c.task_uuid = u.task_uuid and c.most_recent = true limit 1) c
         where c.to_state = any (v_states)
         order by u.place
         limit p_limit);
    end if;
  end if;
  next_before := case when cardinality(task_uuids) = p_limit then task_uuids[p_limit]
                      when cardinality(v_looked) = v_look_at then v_looked[v_look_at] end;
end
$$;
comment on function tasker.find_tasks(text, text, text, text, uuid, int) is
  'A page of tasks, newest first: of a namespace, of a workflow, in a state or in a canonical phase. Hand next_before in as p_before for the next page; null: there is none. A page may be short of what was asked for, even empty, and still have a next one: at most 20,000 tasks of a name are looked at for a state. A bound login gets what it sees.';
