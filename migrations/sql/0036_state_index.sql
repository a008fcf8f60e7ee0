-- While the log is empty, the planner takes any index that has the key in it, and a session keeps such a plan: the current row of
-- a task was looked up by reading this index from end to end. Now only who names sort_key > 0, which always holds, is given it.
drop index tasker.task_transitions_state_idx;
create index task_transitions_state_idx on tasker.task_transitions (namespace, to_state, task_uuid) where most_recent = true and sort_key > 0;
comment on index tasker.task_transitions_state_idx is
  'The newest tasks of a namespace in a state. sort_key > 0 always holds: it keeps other queries away, whose plans may have been made while the log was empty.';
