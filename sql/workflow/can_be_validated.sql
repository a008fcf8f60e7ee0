create or replace function tasker.can_be_validated(p_vocabulary text) returns boolean
language sql
stable
return exists (select from tasker.vocabularies v
                 join tasker.lifecycle_transitions r on r.lifecycle = v.task_lifecycle and r.operation = 'advance' and r.guard = 'validated'
                where v.vocabulary = p_vocabulary);
comment on function tasker.can_be_validated(text) is
  'Whether a task waits in this vocabulary for a verdict on the whole, which a workflow with final_validation needs.';
