create or replace function tasker.check_log_transitions() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c_kind     constant text := tg_argv[0];
  c_entities constant text := tg_argv[1];
  c_key      constant text := tg_argv[2];
  v_entity   uuid;
  v_refused  text[];
begin
  -- Logs with little traffic share this one check; those of tasks, steps and workers have theirs written out for speed.
  execute format(
    $query$
      select a.%1$I, array[a.lifecycle, a.from_state, a.event, a.to_state]
        from appended a
        left join lateral (select p.to_state, p.lifecycle, p.most_recent from tasker.%2$I p
                            where p.%1$I = a.%1$I and p.sort_key = a.sort_key - 1 limit 1) previous on true
       where case
               when a.sort_key = 1 then
                 a.event <> 'create'
                 or (select l.initial_state from tasker.%3$I e join tasker.lifecycles l on l.lifecycle = e.lifecycle
                      where e.%1$I = a.%1$I and e.lifecycle = a.lifecycle limit 1) is distinct from a.to_state
               else
                 (select true from tasker.lifecycle_transitions r
                   where r.lifecycle = a.lifecycle and r.from_state = a.from_state and r.event = a.event
                     and r.to_state = a.to_state limit 1) is null
                 or previous.to_state is distinct from a.from_state
                 or previous.lifecycle is distinct from a.lifecycle
                 or previous.most_recent
             end
          or a.most_recent is distinct from ((select n.sort_key from tasker.%2$I n
                                               where n.%1$I = a.%1$I and n.sort_key = a.sort_key + 1 limit 1) is null)
       limit 1
    $query$, c_key, tg_table_name, c_entities)
    into v_entity, v_refused;
  if v_entity is not null then
    perform tasker.refuse_transition(c_kind, v_entity, v_refused[1], v_refused[2], v_refused[3], v_refused[4]);
  end if;
  return null;
end
$$;
comment on function tasker.check_log_transitions() is
  'Refuses every appended row that is not a transition of its lifecycle from the current state. Arguments: kind, table of the entities, their key.';

create or replace function tasker.check_log_current() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_entity uuid;
begin
  execute format('select f.%1$I from flipped f
                   where (select n.sort_key from tasker.%2$I n
                           where n.%1$I = f.%1$I and n.sort_key = f.sort_key + 1 limit 1) is null
                   limit 1', tg_argv[2], tg_table_name)
    into v_entity;
  if v_entity is not null then
    perform tasker.raise_error('TK409', format('%s %s would be left without a current state', tg_argv[0], v_entity),
                               jsonb_build_object('kind', tg_argv[0], 'uuid', v_entity),
                               'most_recent moves to the successor when a transition is appended; never set it by hand.');
  end if;
  return null;
end
$$;
comment on function tasker.check_log_current() is 'A row may lose most_recent only to its successor. Arguments as of check_log_transitions.';

create or replace function tasker.record_log_changes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_event jsonb;
begin
  execute format('insert into tasker.changes (log, transition_uuids)
                  select %1$L, array_agg(a.%2$I order by a.sort_key) from appended a having count(*) > 0',
                 tg_argv[0], tg_argv[0] || '_transition_uuid');
  for v_event in
    execute format('select jsonb_build_object(''kind'', %1$L, ''uuid'', a.%2$I, ''from_state'', a.from_state,
                                              ''to_state'', a.to_state, ''event'', a.event, ''sort_key'', a.sort_key)
                      from appended a order by a.sort_key', tg_argv[0], tg_argv[2])
  loop
    perform pg_notify('tasker_worker_state', v_event::text);
  end loop;
  return null;
end
$$;
comment on function tasker.record_log_changes() is
  'Publishes transitions of workers and circuit breakers: change feed and tasker_worker_state. Arguments as of check_log_transitions.';
