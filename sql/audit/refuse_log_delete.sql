-- Rows leave a log in one way only: into the archive, in the transaction that put them there, unchanged.

create or replace function tasker.refuse_log_delete() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from tasker.archived_tasks a where a.archived_xid = pg_current_xact_id()) then
    perform tasker.raise_error(
      'TK409', format('%s is append-only: %s is not allowed', tg_table_name, tg_op),
      jsonb_build_object('table', tg_table_name, 'operation', tg_op),
      'Rows of ended tasks leave the logs under a retention policy: call archive_tasks.');
  end if;
  return null;
end
$$;
comment on function tasker.refuse_log_delete() is 'Refuses to remove rows that are evidence, for every role, but for a transaction that has archived something.';

create or replace function tasker.refuse_unarchived() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key     uuid := (to_jsonb(old) ->> tg_argv[0])::uuid;
  v_content text := tasker.audit_content(old);
begin
  if not exists (select from tasker.archived_rows a
                  where a.row_uuid = v_key and a.month = tasker.uuid_month(v_key) and v_content in (a.content, a.audit_content)) then
    perform tasker.raise_error('TK409', format('%s is append-only: this row is not archived', tg_table_name),
                               jsonb_build_object('table', tg_table_name, 'row', to_jsonb(old)),
                               'Rows of ended tasks leave the logs under a retention policy: call archive_tasks.');
  end if;
  return old;
end
$$;
comment on function tasker.refuse_unarchived() is 'Refuses to remove a row of which the archive has no exact copy. Argument: the key of the log row.';

do $make$
declare
  v_table text;
begin
  foreach v_table in array array['task_transitions', 'workflow_step_transitions', 'workflow_step_result_audit'] loop
    execute format(
      $ddl$
        create or replace trigger refuse_delete before delete on tasker.%1$I
          for each statement execute function tasker.refuse_log_delete();
        comment on trigger refuse_delete on tasker.%1$I is 'Rows are not removed, but for what is archived.';
        alter table tasker.%1$I enable always trigger refuse_delete;
        create or replace trigger refuse_unarchived before delete on tasker.%1$I
          for each row execute function tasker.refuse_unarchived(%2$L);
        comment on trigger refuse_unarchived on tasker.%1$I is 'Only what stands in the archive leaves.';
        alter table tasker.%1$I enable always trigger refuse_unarchived;
      $ddl$, v_table, case v_table when 'task_transitions' then 'task_transition_uuid' else 'workflow_step_transition_uuid' end);
  end loop;
end
$make$;
