create or replace view tasker.limit_overview as
select l.scope, l.name, l.namespace, l.concurrency, s.running, l.rate, l.per, s.started, s.reserved, w.waiting, w.waiting_since,
       case when l.rate is not null and s.open_starts = 0 then s.next_free_at end as next_start_at, l.created_at, l.limit_uuid
  from tasker.limits l
 cross join lateral (
   select (count(*) filter (where x.kind = 'concurrency' and x.workflow_step_uuid is not null and x.reserved_until is null))::int as running,
          (count(*) filter (where x.kind = 'rate' and x.free_at > tasker.clock()))::int as started,
          (count(distinct x.workflow_step_uuid) filter (where x.reserved_until is not null))::int as reserved,
          (count(*) filter (where x.kind = 'rate' and x.free_at <= tasker.clock() and x.workflow_step_uuid is null))::int as open_starts,
          min(x.free_at) filter (where x.kind = 'rate' and x.workflow_step_uuid is null) as next_free_at
     from tasker.limit_slots x where x.limit_uuid = l.limit_uuid) s
 cross join lateral (
   select count(*)::int as waiting, min(x.created_at) as waiting_since from tasker.limit_waits x where x.limit_uuid = l.limit_uuid) w;
comment on view tasker.limit_overview is 'One row a limit with what it has given away and who waits for it: what a person reads.';
comment on column tasker.limit_overview.scope is 'What it holds for: tool, namespace or template.';
comment on column tasker.limit_overview.name is 'Which tool, namespace or template.';
comment on column tasker.limit_overview.namespace is 'The namespace whose steps it counts; null: those of all.';
comment on column tasker.limit_overview.concurrency is 'So many run at once; null: any number.';
comment on column tasker.limit_overview.running is 'So many do; more than may where the limit was lowered meanwhile.';
comment on column tasker.limit_overview.rate is 'So many start in any stretch of time as long as per; null: any number.';
comment on column tasker.limit_overview.per is 'How long that stretch is.';
comment on column tasker.limit_overview.started is 'So many did in the stretch that ends now.';
comment on column tasker.limit_overview.reserved is 'Steps in their queues for which it keeps what they need, for half a minute at most.';
comment on column tasker.limit_overview.waiting is 'Steps in its line.';
comment on column tasker.limit_overview.waiting_since is 'Since when the first of them waits.';
comment on column tasker.limit_overview.next_start_at is 'When the rate lets the next one start; null: now.';
comment on column tasker.limit_overview.created_at is 'When it was set first.';
comment on column tasker.limit_overview.limit_uuid is 'Key.';
