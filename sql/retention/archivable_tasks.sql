create or replace function tasker.archivable_tasks(
  p_roots  uuid[],
  p_before timestamptz,
  out root_task_uuid uuid,
  out task_uuid      uuid
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  -- the whole family has ended, nobody holds a step or the evidence of it
  select r.root, f.task_uuid
    from unnest(p_roots) as r(root)
   cross join lateral tasker.task_family(r.root) as f(task_uuid)
   where not exists (
     select from tasker.task_family(r.root) as m(task_uuid)
      cross join lateral (select t.completed_at from tasker.tasks t where t.task_uuid = m.task_uuid limit 1) t
      where t.completed_at is null or t.completed_at >= p_before
         or exists (select from tasker.legal_holds h where h.task_uuid = m.task_uuid)
         or exists (select from tasker.workflow_steps s where s.task_uuid = m.task_uuid and s.claim_uuid is not null))
$$;
comment on function tasker.archivable_tasks(uuid[], timestamptz) is
  'Of families by their root: all tasks of those that may be archived now.';
