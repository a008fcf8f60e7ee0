create or replace function tasker.get_step_readiness_status(
  p_task_uuid  uuid,
  p_step_uuids uuid[] default null,
  out workflow_step_uuid     uuid,
  out task_uuid              uuid,
  out name                   text,
  out current_state          text,
  out dependencies_satisfied boolean,
  out retry_eligible         boolean,
  out ready_for_execution    boolean,
  out total_parents          int,
  out completed_parents      int,
  out attempts               int,
  out max_attempts           int,
  out next_retry_at          timestamptz
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select o.workflow_step_uuid, o.task_uuid, o.name, o.state,
         o.unmet_dependencies <= 0,
         o.attempts < o.max_attempts,
         not o.is_terminal and o.unmet_dependencies <= 0
           and (o.phase in ('pending', 'queued') or (o.phase = 'waiting_retry' and o.next_retry_at <= tasker.clock())),
         p.parents, p.completed,
         o.attempts, o.max_attempts, o.next_retry_at
    from tasker.step_overview o
   cross join lateral (select s.options from tasker.workflow_steps s where s.workflow_step_uuid = o.workflow_step_uuid limit 1) s
   cross join lateral (
     select count(*)::int as parents,
            (count(*) filter (where case when s.options ->> 'run_when' = 'all_finished' then x.counts_as in ('satisfied', 'failed') or e.waived
                                         else tasker.counts_as(x.counts_as, d.on_failure, d.left_out) = 'satisfied' end))::int as completed
       from tasker.workflow_step_edges e
      cross join lateral (select d.on_failure, d.left_out from tasker.workflow_steps d where d.workflow_step_uuid = e.from_step_uuid limit 1) d
      cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                           where c.workflow_step_uuid = e.from_step_uuid and c.most_recent limit 1) c
       join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
      where e.to_step_uuid = o.workflow_step_uuid) p
   where o.task_uuid = p_task_uuid and tasker.may_see(o.namespace)
     and (p_step_uuids is null or o.workflow_step_uuid = any (p_step_uuids))
   order by o.ordinal
$$;
comment on function tasker.get_step_readiness_status(uuid, uuid[]) is
  'Seed 004: which steps of a task can run, and what the others wait for. A step in its waiting_retry phase is ready when its backoff is over.';
