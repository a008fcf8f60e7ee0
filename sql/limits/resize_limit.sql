create or replace function tasker.resize_limit(p_limit_uuid uuid, p_old_per interval) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limit tasker.limits;
begin
  select * into v_limit from tasker.limits l where l.limit_uuid = p_limit_uuid;
  -- starts that count go on counting, for as long as is said now
  update tasker.limit_slots s set free_at = s.free_at - p_old_per + v_limit.per
   where s.limit_uuid = p_limit_uuid and s.kind = 'rate' and isfinite(s.free_at) and p_old_per <> v_limit.per;

  -- Running steps go on, and the newest starts count: what is given up is free first, then reserved.
  with ranked as materialized (
    select s.kind, s.number,
           row_number() over (partition by s.kind order by s.workflow_step_uuid is not null and s.reserved_until is null desc,
                                                           s.workflow_step_uuid is not null desc, s.free_at desc, s.number) as place,
           s.kind = 'concurrency' and s.workflow_step_uuid is not null and s.reserved_until is null as runs
      from tasker.limit_slots s where s.limit_uuid = p_limit_uuid
  )
  delete from tasker.limit_slots s using ranked r
   where s.limit_uuid = p_limit_uuid and s.kind = r.kind and s.number = r.number
     and r.place > coalesce(case r.kind when 'concurrency' then v_limit.concurrency else v_limit.rate end, 0)
     and (not r.runs or v_limit.concurrency is null);
  -- numbers without a gap; in two steps, since each is unique at each moment
  update tasker.limit_slots s set number = -s.number where s.limit_uuid = p_limit_uuid;
  update tasker.limit_slots s set number = n.place, free_at = case when s.kind = 'rate' then s.free_at else '-infinity' end
    from (select o.kind, o.number, row_number() over (partition by o.kind order by o.number desc) as place
            from tasker.limit_slots o where o.limit_uuid = p_limit_uuid) n
   where s.limit_uuid = p_limit_uuid and s.kind = n.kind and s.number = n.number;

  -- What runs already counts; but not what somebody is reporting right now, who saw no limit and would give no slot back.
  if v_limit.concurrency is not null and not exists (select from tasker.limit_slots s where s.limit_uuid = p_limit_uuid and s.kind = 'concurrency') then
    insert into tasker.limit_slots (limit_uuid, kind, number, workflow_step_uuid)
    select p_limit_uuid, 'concurrency', row_number() over (order by n.workflow_step_uuid), n.workflow_step_uuid
      from tasker.limits_of(array(select s.workflow_step_uuid
                                    from tasker.workflow_steps s
                                   where s.workflow_step_uuid = any (array(
                                           select held.workflow_step_uuid
                                             from tasker.step_claims c cross join lateral unnest(c.step_uuids) as held(workflow_step_uuid)
                                            where c.worker_uuid is not null))
                                     and s.claim_uuid is not null and s.worker_uuid is not null
                                   order by s.workflow_step_uuid for no key update skip locked)) n
     where n.limit_uuid = p_limit_uuid and n.kind = 'concurrency';
  end if;
  insert into tasker.limit_slots (limit_uuid, kind, number)
  select p_limit_uuid, k.kind, g.number
    from (values ('concurrency', v_limit.concurrency), ('rate', v_limit.rate)) as k(kind, size)
   cross join lateral generate_series(1 + (select count(*) from tasker.limit_slots s where s.limit_uuid = p_limit_uuid and s.kind = k.kind), k.size) as g(number)
   where k.size is not null;
end
$$;
comment on function tasker.resize_limit(uuid, interval) is
  'Gives a limit as many slots as it says, while nobody else touches them. p_old_per: the time of its rate before.';
