create or replace function tasker.check_tasks() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  select t.task_uuid, t.namespace, t.named_task_uuid, t.vocabulary, t.lifecycle
    into v_bad
    from appended t
   where (select true from tasker.task_namespaces n where n.namespace = t.namespace) is null
      or (select true from tasker.vocabularies v where v.vocabulary = t.vocabulary and v.task_lifecycle = t.lifecycle) is null
      or (t.named_task_uuid is not null
          and (select true from tasker.named_tasks k where k.named_task_uuid = t.named_task_uuid) is null)
   limit 1;
  if found then
    perform tasker.raise_error('TK404', 'a task names a namespace, template, vocabulary or lifecycle that does not exist', to_jsonb(v_bad),
                               'Create tasks with create_task, create_tasks or create_task_from_graph.');
  end if;
  return null;
end
$$;
comment on function tasker.check_tasks() is
  'Holds what foreign keys would: every task names a namespace, a vocabulary with that lifecycle and, if any, a template.';

create or replace trigger check_tasks
  after insert on tasker.tasks
  referencing new table as appended
  for each statement execute function tasker.check_tasks();
comment on trigger check_tasks on tasker.tasks is 'No task without its namespace, vocabulary and template.';
