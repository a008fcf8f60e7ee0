create or replace function tasker.resend_steps(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.enqueue_steps(array(
    select asked.workflow_step_uuid
      from unnest(p_step_uuids) as asked(workflow_step_uuid)
     cross join lateral (select t.lifecycle, t.to_state from tasker.workflow_step_transitions t
                          where t.workflow_step_uuid = asked.workflow_step_uuid and t.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.phase <> 'pending'
     where (select true from tasker.lifecycle_transitions r
             where r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'claim' limit 1)
     order by asked.workflow_step_uuid));
end
$$;
comment on function tasker.resend_steps(uuid[]) is
  'Puts those of these steps into their queue that a worker may claim from the state they are in.';
