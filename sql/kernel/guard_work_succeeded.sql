create or replace function tasker.guard_work_succeeded(p_facts tasker.step_facts) returns boolean
language sql
immutable
return (p_facts).succeeded is true;
comment on function tasker.guard_work_succeeded(tasker.step_facts) is 'The report says success.';
