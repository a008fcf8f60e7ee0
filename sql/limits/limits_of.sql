create or replace function tasker.limits_of(p_step_uuids uuid[])
  returns table(workflow_step_uuid uuid, "position" bigint, limit_uuid uuid, breadth smallint, kind text, size int, per interval)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
  return query
  select asked.workflow_step_uuid, asked.position, l.limit_uuid, l.breadth, k.kind, k.size, l.per
    from unnest(p_step_uuids) with ordinality as asked(workflow_step_uuid, position)
   cross join lateral (select s.task_uuid, s.namespace, coalesce(s.tool, s.handler) as tool from tasker.workflow_steps s
                        where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
   cross join lateral (select t.name from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
   cross join lateral (
     select * from tasker.limits l where l.scope = 'tool' and l.name = s.tool and l.namespace is null
     union all
     select * from tasker.limits l
      where l.namespace = s.namespace
        and (l.scope, l.name) in (values ('tool', s.tool), ('namespace', s.namespace), ('template', t.name))) l
   cross join lateral (values ('concurrency', l.concurrency), ('rate', l.rate)) as k(kind, size)
   where k.size is not null;
end
$$;
comment on function tasker.limits_of(uuid[]) is
  'What these steps need a slot of: one row for each step, limit and kind.';
