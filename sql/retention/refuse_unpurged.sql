-- The archive changes no more than the logs do, and rows leave it only in the transaction that lists them as purged.
create or replace function tasker.refuse_unpurged() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from tasker.purged_tasks p where p.task_uuid = old.task_uuid and p.purged_xid = pg_current_xact_id()
                    and (tg_argv[0] = 'task' or (to_jsonb(old) ->> 'row_uuid')::uuid = any (p.row_uuids))) then
    perform tasker.raise_error('TK409', format('%s: task %s is not purged', tg_table_name, old.task_uuid),
                               jsonb_build_object('table', tg_table_name, 'task_uuid', old.task_uuid),
                               'Archived tasks are removed under a retention policy: call purge_archive.');
  end if;
  return old;
end
$$;
comment on function tasker.refuse_unpurged() is 'Refuses to remove from the archive what purged_tasks does not list.';

create or replace trigger refuse_unpurged
  before delete on tasker.archived_rows
  for each row execute function tasker.refuse_unpurged('row');
comment on trigger refuse_unpurged on tasker.archived_rows is 'Only what is listed in purged_tasks leaves.';
alter table tasker.archived_rows enable always trigger refuse_unpurged;

create or replace trigger refuse_update
  before update on tasker.archived_rows
  for each row execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.archived_rows is 'Rows do not change.';
alter table tasker.archived_rows enable always trigger refuse_update;

create or replace trigger refuse_truncate
  before truncate on tasker.archived_rows
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.archived_rows is 'Rows are not removed.';
alter table tasker.archived_rows enable always trigger refuse_truncate;

create or replace trigger refuse_unpurged
  before delete on tasker.archived_tasks
  for each row execute function tasker.refuse_unpurged('task');
comment on trigger refuse_unpurged on tasker.archived_tasks is 'Only what is listed in purged_tasks leaves.';
alter table tasker.archived_tasks enable always trigger refuse_unpurged;

create or replace trigger refuse_update
  before update on tasker.archived_tasks
  for each row execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.archived_tasks is 'Rows do not change.';
alter table tasker.archived_tasks enable always trigger refuse_update;

create or replace trigger refuse_truncate
  before truncate on tasker.archived_tasks
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.archived_tasks is 'Rows are not removed.';
alter table tasker.archived_tasks enable always trigger refuse_truncate;

-- Big results stand in a table of their own from the beginning, and stay there until their task goes.
create or replace trigger refuse_unpurged
  before delete on tasker.step_payloads
  for each row execute function tasker.refuse_unpurged('task');
comment on trigger refuse_unpurged on tasker.step_payloads is 'Only what is listed in purged_tasks leaves.';
alter table tasker.step_payloads enable always trigger refuse_unpurged;

create or replace trigger refuse_update
  before update on tasker.step_payloads
  for each row execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.step_payloads is 'Rows do not change.';
alter table tasker.step_payloads enable always trigger refuse_update;

create or replace trigger refuse_truncate
  before truncate on tasker.step_payloads
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.step_payloads is 'Rows are not removed.';
alter table tasker.step_payloads enable always trigger refuse_truncate;

select tasker.protect_archive_partition(c.relname)
  from pg_catalog.pg_inherits i join pg_catalog.pg_class c on c.oid = i.inhrelid
 where i.inhparent = 'tasker.archived_rows'::regclass;
