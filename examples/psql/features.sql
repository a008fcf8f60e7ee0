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
  {"name": "book_tour", "depends_on": ["book_hotel"]}]}') is not null as trip;

-- At most two at the shelves at once, whoever asks.
select tasker.set_limit('tool', 'shelf', p_concurrency => 2) is not null as limited;

-- One worker, which says in SQL what each handler does. It ends when nothing is left to do.
select tasker.register_worker('psql', p_namespaces => '{store}', p_max_concurrent => 10) as worker \gset
create procedure pg_temp.work(p_worker uuid) language plpgsql as $$
declare
  v_step tasker.claimed_step;
  v_idle int := 0;
begin
  while v_idle < 2 loop
    v_idle := v_idle + 1;
    for v_step in select * from tasker.claim_steps(p_worker, p_limit => 10) loop
      v_idle := 0;
      if v_step.handler = 'book_tour' then
        perform tasker.fail_step(v_step.workflow_step_uuid, v_step.claim_uuid, '{"message": "no tour on that day"}', 'permanent');
      else
        perform tasker.complete_step(v_step.workflow_step_uuid, v_step.claim_uuid,
          case v_step.handler when 'list_items' then v_step.context -> 'items'
                              when 'fetch' then to_jsonb(format('%s from shelf %s', v_step.arguments ->> 'item', v_step.arguments ->> 'index'))
                              else to_jsonb(v_step.handler || ' is done') end);
      end if;
    end loop;
    commit;
    if (select o.messages from tasker.orchestrate() o) > 0 then
      v_idle := 0;
    end if;
    commit;
    perform tasker.tick();
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

\echo Who did what
select event, requested_by, reason
  from tasker.report_interventions(clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour') where namespace = 'store' order by at;
select count(*) as findings from tasker.check_consistency();
