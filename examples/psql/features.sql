-- What a workflow can do, with psql alone: psql -Xq -f examples/psql/features.sql
\set ON_ERROR_STOP on
\pset footer off
\pset null -
set client_min_messages = warning;

-- A delivery runs a workflow of its own for the parcel, once every item was fetched from its shelf and somebody has approved it, who also
-- decides in what it is wrapped.
select tasker.register_template('{"name": "parcel", "namespace": "store", "steps": [
  {"name": "pack"}, {"name": "label", "depends_on": ["pack"]}]}') is not null as parcel,
       tasker.register_template('{"name": "delivery", "namespace": "store", "steps": [
  {"name": "list_items"},
  {"name": "fetch", "depends_on": ["list_items"], "for_each": "$.inputs.list_items[*]", "tool": "shelf"},
  {"name": "approval", "handler": null, "wait_for": {"event": "approved", "key": "$.context.order", "timeout_seconds": 86400}},
  {"name": "box", "created_by": "approval"},
  {"name": "gift_wrap", "created_by": "approval"},
  {"name": "parcel", "depends_on": ["fetch", "approval", "box", "gift_wrap"], "workflow": {"name": "parcel", "context": "$.context"}},
  {"name": "tidy", "depends_on": ["parcel"], "run_when": "all_finished"}]}') is not null as delivery,
-- A trip is booked step by step, and what was booked is cancelled again where one of them can't be had.
       tasker.register_template('{"name": "trip", "namespace": "store", "steps": [
  {"name": "book_flight", "undo": "cancel_flight"},
  {"name": "book_hotel", "depends_on": ["book_flight"], "undo": "cancel_hotel"},
  {"name": "book_tour", "depends_on": ["book_hotel"]}]}') is not null as trip,
       tasker.register_template('{"name": "inventory", "namespace": "store", "steps": [
  {"name": "read_shelves"}, {"name": "count", "depends_on": ["read_shelves"], "delay_seconds": 0.05}]}') is not null as inventory;

-- At most two at the shelves at once, whoever asks.
select tasker.set_limit('tool', 'shelf', p_concurrency => 2) is not null as limited;

-- One worker, which says in SQL what each handler does. It ends when nothing is left to do.
select tasker.register_worker('psql', p_namespaces => '{store}', p_max_concurrent => 10) as worker \gset
create procedure pg_temp.work(p_worker uuid) language plpgsql as $$
declare
  v_step tasker.claimed_step;
  v_idle int := 0;
begin
  -- idle twice, and nothing queued for a moment from now
  while v_idle < 2 or exists (select from tasker.timers t where t.kind = 'requeue') loop
    v_idle := v_idle + 1;
    for v_step in select * from tasker.claim_steps(p_worker, p_limit => 10) loop
      v_idle := 0;
      if v_step.handler = 'book_tour' then
        perform tasker.fail_step(v_step.workflow_step_uuid, v_step.claim_uuid, '{"message": "no tour on that day"}', 'permanent');
      else
        perform tasker.complete_step(v_step.workflow_step_uuid, v_step.claim_uuid,
          case v_step.handler when 'list_items' then v_step.context -> 'items'
                              when 'fetch' then to_jsonb(format('%s from shelf %s', v_step.arguments ->> 'item', v_step.arguments ->> 'index'))
                              when 'read_shelves' then to_jsonb(repeat('cup ', 50000))
                              -- what is large is loaded when it is wanted
                              when 'count' then to_jsonb(length(tasker.load_result((v_step.inputs #>> '{read_shelves,payload_uuid}')::uuid) #>> '{}') / 4)
                              else to_jsonb(v_step.handler || ' is done') end);
      end if;
    end loop;
    commit;
    if (select o.messages from tasker.orchestrate() o) > 0 then
      v_idle := 0;
    end if;
    commit;
    if (select t.timers_fired from tasker.tick() t) > 0 then
      v_idle := 0;
    end if;
    commit;
  end loop;
end
$$;

\echo Two ask for the same delivery: one task
select outcome from tasker.submit_tasks('[
  {"name": "delivery", "namespace": "store", "unique_key": "order 7", "context": {"order": "7", "items": ["tea", "cup", "pot"]}},
  {"name": "delivery", "namespace": "store", "unique_key": "order 7", "context": {"order": "7", "items": ["tea", "cup", "pot"]}}]');
call pg_temp.work(:'worker');

\echo It waits for somebody
select s.name, s.state, s.waits_for from tasker.step_overview s where s.namespace = 'store' order by s.task_uuid, s.ordinal;
select outcome from tasker.emit_event('approved', '7', '{"by": "anna", "create": ["gift_wrap"]}', 'store', 'anna');
call pg_temp.work(:'worker');
select t.name as task, s.name, s.state, s.result from tasker.step_overview s join tasker.task_overview t using (task_uuid)
 where s.namespace = 'store' order by s.task_uuid, s.ordinal;

\echo A trip can not be had: who gives it up has what was booked undone, the newest first
select tasker.create_task('trip', '{}', 'store') as trip \gset
call pg_temp.work(:'worker');
select state from tasker.task_overview where task_uuid = :'trip';
select tasker.give_up_task(:'trip', 'no tour to be had', 'anna') as state;
call pg_temp.work(:'worker');
select t.name as task, t.state as task_state, s.name, s.state, s.result from tasker.step_overview s join tasker.task_overview t using (task_uuid)
 where t.name like '%trip' order by s.task_uuid, s.ordinal;

\echo A large result, after a delay, of a task that goes first
select tasker.create_task('inventory', '{}', 'store', p_priority => 5) as inventory \gset
call pg_temp.work(:'worker');
select name, state, case when name = 'count' then result end as result, result ->> 'size' as size
  from tasker.step_overview where task_uuid = :'inventory' order by ordinal;

\echo Every morning in Vienna; what is asked for again and again waits until nobody has asked for a while
select tasker.schedule_tasks('morning', '30 6 * * 1-5', 'inventory', p_namespace => 'store', p_time_zone => 'Europe/Vienna') is not null as scheduled;
select outcome from tasker.submit_tasks('[{"name": "inventory", "namespace": "store", "unique_key": "recount", "debounce_seconds": 3600}]');
select outcome from tasker.submit_tasks('[{"name": "inventory", "namespace": "store", "unique_key": "recount", "debounce_seconds": 3600}]');

\echo Many at once: first what would be done, then it is done
select name, before, after from tasker.command_all('cancel_task', '{"namespace": "store", "name": "inventory"}', 'closed today', 'anna');
select name, before, after from tasker.command_all('cancel_task', '{"namespace": "store", "name": "inventory"}', 'closed today', 'anna', p_dry_run => false);
select tasker.drain_worker(:'worker', 'closed today', 'anna') as worker;

\echo Who did what
select event, requested_by, reason
  from tasker.report_interventions(clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour') where namespace = 'store' order by at;
select count(*) as findings from tasker.check_consistency();
