create or replace function tasker.settle_worker(p_worker_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_worker tasker.workers;
  v_phase  text;
begin
  perform tasker.end_released_worker(p_worker_uuid);
  select * into v_worker from tasker.workers w where w.worker_uuid = p_worker_uuid;
  v_phase := tasker.worker_phase(p_worker_uuid);
  if v_phase = 'unresponsive' then
    perform tasker.move_worker(p_worker_uuid, 'worker_recover');
  elsif v_worker.shutdown_requested_at is not null then
    perform tasker.move_worker(p_worker_uuid, 'worker_shutdown', jsonb_build_object('requested_at', v_worker.shutdown_requested_at));
  elsif v_phase = 'busy' then
    perform tasker.move_worker(p_worker_uuid, 'worker_finish');
  end if;
end
$$;
comment on function tasker.settle_worker(uuid) is 'Moves a locked worker to where it stands by what it holds and what was asked of it.';
