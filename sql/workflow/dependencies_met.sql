create or replace function tasker.dependencies_met(p_options jsonb, p_done int, p_excused int, p_finished int) returns int
language sql
immutable
return case when p_options is null then p_done + p_excused
            else case p_options ->> 'run_when'
                   -- one that ended well outweighs all of them; if none did, those that hold nobody up are enough when they are all
                   when 'any_satisfied' then p_done * (p_options ->> 'dependencies')::int + p_excused
                   when 'all_finished' then p_finished
                   else p_done + p_excused end end;
comment on function tasker.dependencies_met(jsonb, int, int, int) is
  'By how much so many settled dependencies bring unmet_dependencies of a step with these options down: at zero and below it is ready.';
