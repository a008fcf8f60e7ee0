create or replace function tasker.metrics_queues(
  out namespace      text,
  out requires       text[],
  out priority       smallint,
  out queue_name     text,
  out depth          bigint,
  out oldest_seconds int
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  with queues as materialized (
    select q.* from (select n.namespace, '{}'::text[] as requires, 0::smallint as priority, n.queue_name from tasker.task_namespaces n
                     union all
                     select c.namespace, c.requires, c.priority, c.queue_name from tasker.work_queues c
                     union all
                     select null, '{}', 0, 'orchestration_step_results') q
     where to_regclass('pgmq.' || quote_ident('q_' || q.queue_name)) is not null
       and ((select tasker.bound_namespaces()) is null or q.namespace = any ((select tasker.bound_namespaces())::text[]))
  )
  select q.namespace, q.requires, q.priority, q.queue_name, m.queue_length, coalesce(m.oldest_msg_age_sec, 0)
    from queues q cross join lateral pgmq.metrics(q.queue_name) m
   order by q.namespace nulls first, q.requires, q.priority desc
$$;
comment on function tasker.metrics_queues() is 'What stands in each queue: claimable steps of a namespace, and results that wait for orchestration.';

create or replace view tasker.metrics_queues as
select q.namespace, q.requires, q.priority, q.queue_name, q.depth, q.oldest_seconds from tasker.metrics_queues() q;
comment on view tasker.metrics_queues is 'Depth of each queue and age of its oldest message. Without a namespace: results that wait for orchestration.';
comment on column tasker.metrics_queues.namespace is 'Whose claimable steps; null for the queue of results.';
comment on column tasker.metrics_queues.requires is 'Capabilities that its steps ask for.';
comment on column tasker.metrics_queues.priority is 'Priority of its tasks.';
comment on column tasker.metrics_queues.queue_name is 'The pgmq queue.';
comment on column tasker.metrics_queues.depth is 'Messages in it.';
comment on column tasker.metrics_queues.oldest_seconds is 'Age of the oldest one; 0 for an empty queue.';
