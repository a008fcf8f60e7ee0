create or replace function tasker.take_left_steps(p_namespace text, p_worker tasker.workers, p_limit int) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_steps uuid[] := array[]::uuid[];
  v_taken int;
  v_found uuid[];
begin
  loop
    with chosen as materialized (
      select w.workflow_step_uuid, w.sort_key
        from tasker.handler_waits w
       where w.namespace = p_namespace and (p_worker.handlers is null or w.handler = any (p_worker.handlers))
         and w.requires <@ p_worker.capabilities
       order by w.priority desc, w.created_at
       limit p_limit - cardinality(v_steps)
         for update skip locked
    ), taken as (
      delete from tasker.handler_waits w using chosen
       where w.workflow_step_uuid = chosen.workflow_step_uuid and w.sort_key = chosen.sort_key
      returning w.*
    )
    -- one that moved on since waits for nothing any more
    select count(*), array_agg(t.workflow_step_uuid order by t.priority desc, t.created_at) filter (where c.workflow_step_uuid is not null)
      into v_taken, v_found
      from taken t
      left join lateral (select c.workflow_step_uuid from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = t.workflow_step_uuid and c.most_recent and c.sort_key = t.sort_key limit 1) c on true;
    v_steps := v_steps || v_found;
    exit when v_taken = 0 or cardinality(v_steps) >= p_limit;
  end loop;
  return v_steps;
end
$$;
comment on function tasker.take_left_steps(text, tasker.workers, int) is
  'Takes up to p_limit of the steps of a namespace that others left to workers like this one; each for one caller, and there again if that one dies.';
