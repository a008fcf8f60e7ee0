create or replace function tasker.refuse_decision(p_step_uuid uuid, p_result jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_creates jsonb := (select s.options -> 'creates' from tasker.workflow_steps s where s.workflow_step_uuid = p_step_uuid);
  v_problem text;
begin
  if v_creates is not null then
    v_problem := tasker.decision_problem(v_creates, p_result);
    if v_problem is not null then
      perform tasker.raise_error('TK400', format('step %s decides what is created: %s', p_step_uuid, v_problem),
                                 jsonb_build_object('step_uuid', p_step_uuid, 'may_create', (select jsonb_agg(k order by k) from jsonb_object_keys(v_creates) k)),
                                 'Give {"create": []} if nothing is to be created.');
    end if;
  end if;
end
$$;
comment on function tasker.refuse_decision(uuid, jsonb) is 'Raises TK400 when somebody gives a decision a result by hand that names steps which it may not create.';
