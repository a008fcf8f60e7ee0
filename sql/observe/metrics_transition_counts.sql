create or replace function tasker.metrics_transition_counts(
  p_since     timestamptz,
  out lifecycle   text,
  out from_state  text,
  out event       text,
  out to_state    text,
  out transitions bigint
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select l.lifecycle, l.from_state, l.event, l.to_state, count(*)
    from (select t.lifecycle, t.from_state, t.event, t.to_state from tasker.task_transitions t where t.created_at >= p_since
             and ((select tasker.bound_namespaces()) is null or t.namespace = any ((select tasker.bound_namespaces())::text[]))
          union all
          select t.lifecycle, t.from_state, t.event, t.to_state from tasker.workflow_step_transitions t where t.created_at >= p_since
             and ((select tasker.bound_namespaces()) is null or t.namespace = any ((select tasker.bound_namespaces())::text[]))
          union all
          select t.lifecycle, t.from_state, t.event, t.to_state from tasker.worker_transitions t where t.created_at >= p_since
             and ((select tasker.bound_namespaces()) is null or tasker.may_see_worker(t.worker_uuid))
          union all
          select t.lifecycle, t.from_state, t.event, t.to_state from tasker.circuit_breaker_transitions t where t.created_at >= p_since
             and (select tasker.bound_namespaces()) is null
          union all
          select t.lifecycle, t.from_state, t.event, t.to_state from tasker.attached_transitions t where t.created_at >= p_since
             and ((select tasker.bound_namespaces()) is null or t.namespace = any ((select tasker.bound_namespaces())::text[]))) l
   group by l.lifecycle, l.from_state, l.event, l.to_state
   order by l.lifecycle, count(*) desc, l.from_state, l.to_state
$$;
comment on function tasker.metrics_transition_counts(timestamptz) is
  'How often each transition was made since then (seed 003: transition counts by state pair). from_state is null for creations.';

create or replace view tasker.metrics_transition_counts as
select c.lifecycle, c.from_state, c.event, c.to_state, c.transitions from tasker.metrics_transition_counts('-infinity') c;
comment on view tasker.metrics_transition_counts is 'How often each transition was made, over the whole log (seed 003). It reads all of it: in daily use call metrics_transition_counts(p_since).';
