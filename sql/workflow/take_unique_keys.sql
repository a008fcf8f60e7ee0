create or replace function tasker.take_unique_keys(p_tasks tasker.tasks[], p_rules tasker.unique_rule[]) returns tasker.unique_answer[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_held   tasker.unique_keys[];
  v_known  tasker.tasks[];
  v_other  record;
  v_answer tasker.unique_answer[];
  v_pushed uuid[];
  v_places bigint[];
begin
  select t.namespace, t.unique_key into v_other
    from unnest(p_tasks) with ordinality as t
    join unnest(p_rules) with ordinality as r on r.ordinality = t.ordinality
   where t.unique_key is not null
   group by t.namespace, t.unique_key
  having count(distinct (r.window_length, r.debounce, r.longest_wait)) > 1
   limit 1;
  if found then
    perform tasker.raise_error('TK400', format('requests of one call ask for unique key %s in different ways', v_other.unique_key), to_jsonb(v_other),
                               'Give all of them the same unique_seconds, debounce_seconds and debounce_max_seconds.');
  end if;

  -- The rows are the locks, taken in one order; a request under a key that another call is using waits here until that call is over.
  with locked as (
    insert into tasker.unique_keys as k (namespace, unique_key, task_uuid, taken_at)
    select distinct on (t.namespace, t.unique_key) t.namespace, t.unique_key, t.task_uuid, tasker.clock()
      from unnest(p_tasks) with ordinality as t
      join unnest(p_rules) with ordinality as r on r.ordinality = t.ordinality
     where t.unique_key is not null
     -- of requests in one call the first is created, and of those that push back the last
     order by t.namespace, t.unique_key, case when r.debounce is null then t.ordinality else -t.ordinality end
        on conflict (namespace, unique_key) do update set unique_key = excluded.unique_key
    returning k.namespace, k.unique_key, k.task_uuid, k.taken_at
  )
  select array_agg((l.namespace, l.unique_key, l.task_uuid, l.taken_at)::tasker.unique_keys) into v_held from locked l;
  if exists (select from unnest(p_rules) r where r.debounce is not null) then  -- it may be about to start
    perform tasker.lock_tasks(array(select h.task_uuid from unnest(v_held) h));
  end if;

  -- A repeated request is answered with the task that it made the first time, whatever has become of its unique key.
  v_known := array(select t from unnest(p_tasks) t
                    cross join lateral (select from tasker.tasks k
                                         where k.namespace = t.namespace and k.idempotency_key = t.idempotency_key limit 1) k
                    where t.unique_key is not null);

  with requests as materialized (
    select t.ordinality as position, t.task_uuid, t.namespace, t.unique_key, r.window_length, r.debounce, h.task_uuid as holder, h.taken_at,
           first_value(t.task_uuid) over (partition by t.namespace, t.unique_key
                                          order by case when r.debounce is null then t.ordinality else -t.ordinality end) as candidate
      from unnest(p_tasks) with ordinality as t
      join unnest(p_rules) with ordinality as r on r.ordinality = t.ordinality
      join unnest(v_held) h on h.namespace = t.namespace and h.unique_key = t.unique_key
      left join unnest(v_known) known on known.task_uuid = t.task_uuid
     where known.task_uuid is null
  ), judged as materialized (
    select r.*, case when holding.phase is null then 'free'
                     when r.debounce is not null then case when holding.phase <> 'pending' then 'free' when holding.start_at is null then 'duplicate' else 'pushed_back' end
                     when r.window_length is not null then case when r.taken_at + r.window_length > tasker.clock() then 'duplicate' else 'free' end
                     when holding.is_terminal then 'free'
                     else 'duplicate' end as outcome
      from requests r
      left join lateral (select k.start_at, s.phase, s.is_terminal
                           from tasker.tasks k
                           join tasker.task_transitions c on c.task_uuid = k.task_uuid and c.most_recent
                           join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
                          where k.task_uuid = r.holder limit 1) holding on true
  ), taken as (
    insert into tasker.unique_keys (namespace, unique_key, task_uuid, taken_at)
    select j.namespace, j.unique_key, j.task_uuid, tasker.clock() from judged j where j.outcome = 'free' and j.task_uuid = j.candidate and j.task_uuid <> j.holder
        on conflict (namespace, unique_key) do update set task_uuid = excluded.task_uuid, taken_at = excluded.taken_at
  )
  select array_agg((j.task_uuid, case j.outcome when 'free' then j.candidate else j.holder end,
                    case j.outcome when 'free' then 'duplicate' else j.outcome end)::tasker.unique_answer) filter (where j.outcome <> 'free' or j.task_uuid <> j.candidate),
         array_agg(j.holder order by j.holder) filter (where j.outcome = 'pushed_back' and j.task_uuid = j.candidate),
         array_agg(j.position order by j.holder) filter (where j.outcome = 'pushed_back' and j.task_uuid = j.candidate)
    into v_answer, v_pushed, v_places
    from judged j;
  if v_pushed is not null then
    perform tasker.push_back_starts(v_pushed, v_places, p_tasks, p_rules);
  end if;
  return v_answer;
end
$$;
comment on function tasker.take_unique_keys(tasker.tasks[], tasker.unique_rule[]) is
  'Which of these new tasks stand behind another one of their unique key, and behind which; the others are to be created, or found by their idempotency keys. Pushes back starts. The keys stay locked, so that of many callers one creates the task.';
