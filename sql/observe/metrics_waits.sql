create or replace function tasker.metrics_waits(
  out waits_for      text,
  out name           text,
  out namespace      text,
  out steps          bigint,
  out oldest_seconds double precision
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  with held_up as (
    select 'handler' as waits_for, w.handler as name, w.namespace, w.workflow_step_uuid, w.sort_key
      from tasker.handler_waits w
    union all
    select 'breaker', t.tool, t.namespace, t.workflow_step_uuid, t.sort_key
      from tasker.timers t where t.tool is not null and t.kind = 'requeue'
    union all
    select 'limit', l.scope || ' ' || l.name, w.namespace, w.workflow_step_uuid, w.sort_key
      from tasker.limit_waits w join tasker.limits l on l.limit_uuid = w.limit_uuid
  ), waits as (
    select h.waits_for, h.name, h.namespace, here.created_at as since
      from held_up h
     -- Since when it stands here, not since when it was held up last: each cooldown begins anew. Rows of steps that have moved on
     -- meanwhile are left where they are, and taken away by the next who comes to them.
     cross join lateral (select c.created_at from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = h.workflow_step_uuid and c.most_recent and c.sort_key = h.sort_key limit 1) here
    union all
    select 'event', w.event, w.namespace, w.since from tasker.event_waits w where w.ended_at is null
    union all
    -- the engine holds a step as long as its workflow runs
    select 'workflow', s.options #>> '{workflow,name}', s.namespace, c.claimed_at
      from tasker.step_claims c
     cross join unnest(c.step_uuids) as held(workflow_step_uuid)
     cross join lateral (select s.options, s.namespace from tasker.workflow_steps s
                          where s.workflow_step_uuid = held.workflow_step_uuid and s.claim_uuid = c.claim_uuid limit 1) s
     where c.worker_uuid is null and s.options ? 'workflow'
  )
  select w.waits_for, w.name, w.namespace, count(*), extract(epoch from greatest(tasker.clock() - min(w.since), interval '0'))::double precision
    from waits w
   where (select tasker.bound_namespaces()) is null or w.namespace = any ((select tasker.bound_namespaces())::text[])
   group by w.waits_for, w.name, w.namespace
   order by w.waits_for, w.name, w.namespace
$$;
comment on function tasker.metrics_waits() is
  'What steps wait for that no free worker who is there could change: a worker with their handler, a breaker, a limit, an event, a workflow of their own. It costs what waits, however much is over.';

create or replace view tasker.metrics_waits as
select w.waits_for, w.name, w.namespace, w.steps, w.oldest_seconds from tasker.metrics_waits() w;
comment on view tasker.metrics_waits is 'How many steps wait for something else than a free worker, and how long the first of them.';
comment on column tasker.metrics_waits.waits_for is 'handler: a worker that has it; breaker: that it lets steps through again; limit: a slot of it; event: that somebody tells it; workflow: the end of the task that the step runs.';
comment on column tasker.metrics_waits.name is 'Which handler, tool, limit (its scope and name), event or workflow.';
comment on column tasker.metrics_waits.namespace is 'Namespace of the steps.';
comment on column tasker.metrics_waits.steps is 'How many.';
comment on column tasker.metrics_waits.oldest_seconds is 'How long the first of them has waited: since it was ready for a worker, for its event or for its workflow, however often it was held up.';
