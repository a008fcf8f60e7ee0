create or replace function tasker.guard_work_failed(p_facts tasker.step_facts) returns boolean
language sql
immutable
return (p_facts).succeeded is false;
comment on function tasker.guard_work_failed(tasker.step_facts) is 'The report says failure.';
