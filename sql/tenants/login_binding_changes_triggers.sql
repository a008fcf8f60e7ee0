-- The log is append-only, as those of tasks and steps.
create or replace trigger refuse_update
  before update on tasker.login_binding_changes
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_update on tasker.login_binding_changes is 'Rows do not change.';
alter table tasker.login_binding_changes enable always trigger refuse_update;

create or replace trigger refuse_delete
  before delete on tasker.login_binding_changes
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_delete on tasker.login_binding_changes is 'Rows are not removed.';
alter table tasker.login_binding_changes enable always trigger refuse_delete;

create or replace trigger refuse_truncate
  before truncate on tasker.login_binding_changes
  for each statement execute function tasker.refuse_log_change();
comment on trigger refuse_truncate on tasker.login_binding_changes is 'Rows are not removed.';
alter table tasker.login_binding_changes enable always trigger refuse_truncate;
