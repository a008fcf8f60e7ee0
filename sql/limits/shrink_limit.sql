create or replace function tasker.shrink_limit(p_limit_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_most   int;
  v_closed int[];
  v_over   int;
begin
  if not exists (select from tasker.limit_slots s
                  where s.limit_uuid = p_limit_uuid and s.kind = 'concurrency' and s.workflow_step_uuid is null and s.free_at = 'infinity') then
    return;
  end if;
  -- one at a time counts; whoever comes meanwhile leaves it to the next
  select l.concurrency into v_most from tasker.limits l where l.limit_uuid = p_limit_uuid for no key update skip locked;
  if not found then
    return;
  end if;
  select count(*) - v_most, coalesce(array_agg(s.number order by s.number desc) filter (where s.workflow_step_uuid is null and s.free_at = 'infinity'), '{}')
    into v_over, v_closed
    from tasker.limit_slots s where s.limit_uuid = p_limit_uuid and s.kind = 'concurrency';
  delete from tasker.limit_slots s
   where s.limit_uuid = p_limit_uuid and s.kind = 'concurrency' and s.number = any (v_closed[:greatest(v_over, 0)]);
  -- what is left of them stays, with numbers that the limit has
  update tasker.limit_slots s set free_at = '-infinity', number = n.new
    from (select o.old, x.new
            from (select u.number as old, row_number() over (order by u.number) as place
                    from unnest(v_closed[greatest(v_over, 0) + 1:]) as u(number) where u.number > v_most) o
            join (select g.number as new, row_number() over (order by g.number) as place
                    from generate_series(1, v_most) as g(number)
                   where g.number not in (select t.number from tasker.limit_slots t where t.limit_uuid = p_limit_uuid and t.kind = 'concurrency')) x
              on x.place = o.place) n
   where s.limit_uuid = p_limit_uuid and s.kind = 'concurrency' and s.number = n.old;
  update tasker.limit_slots s set free_at = '-infinity'
   where s.limit_uuid = p_limit_uuid and s.kind = 'concurrency' and s.number = any (v_closed[greatest(v_over, 0) + 1:]);
end
$$;
comment on function tasker.shrink_limit(uuid) is
  'Takes slots that were given back out of a limit that was lowered while more were running, until it has no more than it should; the others are open again.';
