create or replace function tasker.fail_unmet(p_unmet uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_failing uuid[];
begin
  if cardinality(p_unmet) = 0 then
    return p_unmet;
  end if;
  with failing as (
    update tasker.workflow_steps s
       set options = s.options || jsonb_build_object('fails', jsonb_build_object(
             'type', 'condition_not_met', 'message', format('its condition does not hold: %s', s.condition)))
     where s.workflow_step_uuid = any (p_unmet) and s.options ->> 'when_unmet' = 'fail'
    returning s.workflow_step_uuid)
  select array_agg(f.workflow_step_uuid) into v_failing from failing f;
  return array(select u from unnest(p_unmet) u where u <> all (coalesce(v_failing, '{}')));
end
$$;
comment on function tasker.fail_unmet(uuid[]) is
  'Of steps whose condition does not hold, those that fail by it: they stay ready and are queued like any other, and the engine takes them and reports the failure. Answers the others, which are to be left out.';
