create or replace view tasker.unsealed_changes as
select c.change_id, c.log, c.transition_uuids, c.recorded_at
  from tasker.changes c
 where c.change_id >= coalesce((select s.settled_below from tasker.audit_seals s order by s.seal_number desc limit 1), 0)
   and not exists (select from tasker.audit_seals s
                    where upper(s.change_ids) > coalesce((select l.settled_below from tasker.audit_seals l order by l.seal_number desc limit 1), 0)
                      and s.change_ids @> c.change_id);
comment on view tasker.unsealed_changes is 'Changes that no seal covers yet: below the mark of the last seal all are covered.';
comment on column tasker.unsealed_changes.change_id is 'Key.';
comment on column tasker.unsealed_changes.log is 'Which log.';
comment on column tasker.unsealed_changes.transition_uuids is 'Its rows.';
comment on column tasker.unsealed_changes.recorded_at is 'When.';
