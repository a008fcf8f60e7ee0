create or replace function tasker.allocate_workers(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job     record;
  v_picked  uuid[];
  v_workers uuid[];
begin
  for v_job in
    select t.task_uuid, t.namespace, c.sort_key,
           -- a job starts with all its workers; those that crashed are replaced one by one
           case when not already.given then t.worker_count
                else least(missing.workers, (select count(*)::int from tasker.free_workers(t.namespace))) end as worker_count
      from unnest(p_task_uuids) as asked(task_uuid)
     cross join lateral (select t.* from tasker.tasks t where t.task_uuid = asked.task_uuid and t.worker_count is not null limit 1) t
     cross join lateral (select c.lifecycle, c.to_state, c.sort_key from tasker.task_transitions c
                          where c.task_uuid = t.task_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and not s.is_terminal
     cross join lateral (select tasker.missing_workers(t.task_uuid, t.worker_count) as workers) missing
     cross join lateral (select exists (select from tasker.job_workers j where j.task_uuid = t.task_uuid) as given) already
     where missing.workers > 0
       and (not already.given or exists (select from tasker.free_workers(t.namespace)))
     order by t.task_uuid
  loop
    -- all of them or none; a worker that somebody else looks at now is left out
    loop
      v_picked := array(
        select w.worker_uuid
          from tasker.workers w
         where w.worker_uuid in (select f.worker_uuid from tasker.free_workers(v_job.namespace) f)
         order by w.registered_at
         limit v_job.worker_count
           for no key update of w skip locked);
      -- whether they are still free is known under their locks only
      v_workers := array(select f.worker_uuid from tasker.free_workers(v_job.namespace) f where f.worker_uuid = any (v_picked));
      exit when cardinality(v_picked) < v_job.worker_count or cardinality(v_workers) = v_job.worker_count;
    end loop;
    if cardinality(v_workers) = v_job.worker_count then
      insert into tasker.job_workers (task_uuid, worker_uuid) select v_job.task_uuid, w from unnest(v_workers) w;
      perform tasker.move_worker(w, 'worker_allocate', jsonb_build_object('task_uuid', v_job.task_uuid)) from unnest(v_workers) w;
    elsif (select count(*) from tasker.free_workers(v_job.namespace)) >= v_job.worker_count then
      -- there are enough, but somebody looked at one of them just now
      insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
      values (tasker.clock() + interval '100 milliseconds', 'drive', v_job.task_uuid, v_job.namespace, v_job.sort_key);
    end if;
  end loop;
end
$$;
comment on function tasker.allocate_workers(uuid[]) is
  'Gives locked jobs that wait for workers as many idle supervised ones as they asked for, all or none, and replaces those that ended meanwhile (seed 003).';
