create or replace function tasker.next_due_at() returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
  v_bound text[] := tasker.bound_namespaces();
begin
  return (
  select min(n.at)
    from ((select t.due_at as at from tasker.timers t where v_bound is null or t.namespace = any (v_bound) or (t.kind = 'limit' and t.namespace is null)
            order by t.due_at limit 1)
          union all
          (select s.next_due_at from tasker.schedules s where s.next_due_at is not null and (v_bound is null or s.namespace = any (v_bound))
            order by s.next_due_at limit 1)
          union all
          (select least(c.lease_expires_at, c.first_timeout_at) from tasker.step_claims c where v_bound is null or c.namespace = any (v_bound)
                                                           order by least(c.lease_expires_at, c.first_timeout_at) limit 1)) n);
end
$$;
comment on function tasker.next_due_at() is 'When the next timer or schedule is due or the next lease ends; null when nothing is waited for.';
