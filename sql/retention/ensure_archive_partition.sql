create or replace function tasker.ensure_archive_partition(p_month date) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := 'archived_rows_' || to_char(p_month, 'YYYY_MM');
begin
  if p_month < date '2000-01-01' or to_regclass(format('tasker.%I', v_name)) is not null then
    return;
  end if;
  execute format('create table tasker.%I partition of tasker.archived_rows for values from (%L) to (%L)',
                 v_name, p_month, p_month + interval '1 month');
  perform tasker.protect_archive_partition(v_name);
end
$$;
comment on function tasker.ensure_archive_partition(date) is 'Makes the partition of a month, if it is not there yet.';

create or replace function tasker.protect_archive_partition(p_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- a trigger of the whole table does not fire when one of its partitions is truncated
  execute format(
    $ddl$
      comment on table tasker.%1$I is 'Archived log rows of a month.';
      comment on column tasker.%1$I.month is 'As in archived_rows.';
      comment on column tasker.%1$I.row_uuid is 'As in archived_rows.';
      comment on column tasker.%1$I.task_uuid is 'As in archived_rows.';
      comment on column tasker.%1$I.log is 'As in archived_rows.';
      comment on column tasker.%1$I.content is 'As in archived_rows.';
      comment on column tasker.%1$I.audit_content is 'As in archived_rows.';
      comment on column tasker.%1$I.at is 'As in archived_rows.';
      comment on column tasker.%1$I.requested_by is 'As in archived_rows.';
      comment on column tasker.%1$I.worker_uuid is 'As in archived_rows.';
      comment on column tasker.%1$I.success is 'As in archived_rows.';
      comment on column tasker.%1$I.recorded_at is 'As in archived_rows.';
      create or replace trigger refuse_truncate before truncate on tasker.%1$I
        for each statement execute function tasker.refuse_log_change();
      comment on trigger refuse_truncate on tasker.%1$I is 'Rows are not removed.';
      alter table tasker.%1$I enable always trigger refuse_truncate;
      alter table tasker.%1$I enable always trigger refuse_update;
      comment on trigger refuse_update on tasker.%1$I is 'Rows do not change.';
      alter table tasker.%1$I enable always trigger refuse_unpurged;
      comment on trigger refuse_unpurged on tasker.%1$I is 'Only what is listed in purged_tasks leaves.';
    $ddl$, p_name);
end
$$;
comment on function tasker.protect_archive_partition(text) is 'Puts on a partition of the archive what guards it.';
