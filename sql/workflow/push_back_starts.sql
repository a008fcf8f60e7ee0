create or replace function tasker.push_back_starts(
  p_task_uuids uuid[],
  p_places     bigint[],
  p_tasks      tasker.tasks[],
  p_rules      tasker.unique_rule[]
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_other record;
begin
  select k.task_uuid, k.unique_key, k.name, k.vocabulary, t.name as asked, t.vocabulary as asked_vocabulary
    into v_other
    from unnest(p_task_uuids, p_places) as p(task_uuid, place)
    join unnest(p_tasks) with ordinality as t on t.ordinality = p.place
    join tasker.tasks k on k.task_uuid = p.task_uuid
   where (k.name, k.vocabulary) is distinct from (t.name, t.vocabulary)
   limit 1;
  if found then
    perform tasker.raise_error('TK423', format('task %s, which waits under unique key %s, is of another workflow than the one asked for',
                                               v_other.task_uuid, v_other.unique_key), to_jsonb(v_other),
                               'Use another key for another workflow, or wait until that task has started.');
  end if;
  perform tasker.refuse_large('the context', t.context, t.namespace)
     from unnest(p_places) as p(place) join unnest(p_tasks) with ordinality as t on t.ordinality = p.place;
  for v_other in
    select p.task_uuid, p.place, k.namespace, k.sensitive || t.sensitive as sensitive
      from unnest(p_task_uuids, p_places) as p(task_uuid, place)
      join unnest(p_tasks) with ordinality as t on t.ordinality = p.place
      join tasker.tasks k on k.task_uuid = p.task_uuid
     where coalesce(k.sensitive, t.sensitive) is not null
  loop
    p_tasks[v_other.place].context := tasker.keep_sensitive(v_other.task_uuid, 'context', v_other.task_uuid, v_other.namespace,
                                                            p_tasks[v_other.place].context, v_other.sensitive);
  end loop;

  -- Its timer stays where it is: a tick that has taken it waits for this task, and sets it anew when it finds the later start.
  with pushed as (
    update tasker.tasks k
       set start_at = greatest(k.start_at, least(tasker.clock() + r.debounce, u.taken_at + r.longest_wait)), context = t.context
      from unnest(p_task_uuids, p_places) as p(task_uuid, place)
      join unnest(p_tasks) with ordinality as t on t.ordinality = p.place
      join unnest(p_rules) with ordinality as r on r.ordinality = p.place
      join tasker.unique_keys u on u.namespace = t.namespace and u.unique_key = t.unique_key
     where k.task_uuid = p.task_uuid
    returning k.task_uuid, k.namespace, k.unique_key, k.start_at, k.context, k.sensitive, t.requested_by
  )
  insert into tasker.audit_events (event, subject, namespace, requested_by, detail)
  select 'task_pushed_back', p.task_uuid, p.namespace, p.requested_by,
         jsonb_build_object('unique_key', p.unique_key, 'start_at', p.start_at, 'context_hash', tasker.content_hash(p.context::text, p.sensitive is not null))
    from pushed p order by p.task_uuid;
end
$$;
comment on function tasker.push_back_starts(uuid[], bigint[], tasker.tasks[], tasker.unique_rule[]) is
  'Lets locked tasks that have not started start later, each with the context of the request at its place; an event tells who asked. TK423 if that request is for another workflow.';
