create or replace function tasker.can_leave_out(p_vocabulary text) returns boolean
language sql
stable
return exists (select from tasker.vocabularies v
                 join tasker.lifecycle_transitions r on r.lifecycle = v.step_lifecycle and r.operation in ('skip_step', 'cancel_step')
                 join tasker.lifecycle_states s on s.lifecycle = r.lifecycle and s.state = r.from_state and s.phase = 'pending'
                where v.vocabulary = p_vocabulary);
comment on function tasker.can_leave_out(text) is
  'Whether a step that waits can be skipped or cancelled in this vocabulary, which steps with a condition need.';
