create or replace function tasker.guard_dependencies_satisfied(p_facts tasker.step_facts) returns boolean
language sql
immutable
return (p_facts).unmet_dependencies <= 0;
comment on function tasker.guard_dependencies_satisfied(tasker.step_facts) is 'Seed 004 StepDependenciesMetGuard: every dependency is satisfied, or what its run_when asks for.';
