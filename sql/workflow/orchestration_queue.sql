-- The queue of reported results that wait for orchestration.
do $make$
begin
  if not exists (select from pgmq.meta m where m.queue_name = 'orchestration_step_results') then
    perform tasker.create_queue('orchestration_step_results');
  end if;
end
$make$;
