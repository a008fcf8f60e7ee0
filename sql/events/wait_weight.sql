create or replace function tasker.wait_weight(p_options jsonb) returns int
language sql
immutable
-- where a dependency may count for more than one, the wait outweighs them all
return case when (p_options ->> 'run_when') is null then 1 else 1000000000 end;
comment on function tasker.wait_weight(jsonb) is 'By how much a wait for an event raises unmet_dependencies of a step with these options.';
