create or replace function tasker.leave_out_steps(p_ready_steps uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_reason   constant jsonb := jsonb_build_object('left_out', true, 'reason', 'its condition does not hold, or that of a step it depends on');
  v_ready    uuid[] := p_ready_steps;
  v_unmet    uuid[] := tasker.fail_unmet(tasker.unmet_conditions(p_ready_steps));
  v_released uuid[];
begin
  while cardinality(v_unmet) > 0 loop
    v_released := tasker.leave_out(v_unmet, c_reason);
    v_ready := array(select r from unnest(v_ready || v_released) r where r <> all (v_unmet));
    v_unmet := tasker.fail_unmet(tasker.unmet_conditions(v_released));
  end loop;
  return v_ready;
end
$$;
comment on function tasker.leave_out_steps(uuid[]) is
  'Leaves out those of these ready steps whose condition does not hold (seed 002: SKIPPED, conditional not met), and what depends on them where they say so. Answers the ready steps that remain, with those that became ready by it. The caller holds the locks of the tasks.';
