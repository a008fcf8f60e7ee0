-- What was written since the last vacuum is read whole by questions about a period; now each full range is summarised at once.
alter index tasker.task_transitions_created_at_idx set (autosummarize = on);
alter index tasker.workflow_step_transitions_created_at_idx set (autosummarize = on);
