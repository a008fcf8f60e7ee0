create or replace function tasker.command_worker(p_worker_uuid uuid, p_operation text, p_reason text, p_requested_by text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_worker tasker.workers;
  v_state  text;
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  v_worker := tasker.lock_worker_or_refuse(p_worker_uuid);
  v_state := tasker.move_worker(p_worker_uuid, p_operation,
                                jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true));
  if v_state is null then
    perform tasker.refuse_transition('worker', p_worker_uuid, v_worker.lifecycle, tasker.worker_state(p_worker_uuid), p_operation);
  end if;
  return v_state;
end
$$;
comment on function tasker.command_worker(uuid, text, text, text) is 'A manual action on a worker; the log keeps reason and name.';
