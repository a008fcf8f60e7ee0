create or replace function tasker.pop_results(p_limit int) returns jsonb[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound    text[] := tasker.bound_namespaces();
  v_messages jsonb[];
begin
  if v_bound is null then
    select array_agg(p.message order by p.msg_id) into v_messages from pgmq.pop('orchestration_step_results', p_limit) p;
    return v_messages;
  end if;
  with taken as materialized (
    select r.msg_id, r.message
      from unnest(v_bound) as mine(namespace)
     cross join lateral pgmq.read('orchestration_step_results', 0, p_limit, jsonb_build_object('namespace', mine.namespace)) r
     order by r.msg_id
     limit p_limit
  ), gone as (
    select d.msg_id from pgmq.delete('orchestration_step_results', array(select t.msg_id from taken t)) as d(msg_id)
  )
  select array_agg(t.message order by t.msg_id) into v_messages from taken t join gone g on g.msg_id = t.msg_id;
  return v_messages;
end
$$;
comment on function tasker.pop_results(int) is
  'Takes reported results out of the queue of orchestration: the oldest, or for a bound login the oldest of its namespaces.';
