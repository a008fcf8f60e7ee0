create or replace function tasker.verify_audit(
  p_first_seal bigint default 1,
  out finding     text,
  out seal_number bigint,
  out log         text,
  out row_uuid    uuid,
  out detail      jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_seal     tasker.audit_seals;
  v_before   tasker.audit_seals;
  v_missing  bigint[];
  v_found    boolean := false;
begin
  perform tasker.refuse_bound_login('seals cover all of them');
  select * into v_before from tasker.audit_seals s where s.seal_number = p_first_seal - 1;
  for v_seal in select * from tasker.audit_seals s where s.seal_number >= p_first_seal order by s.seal_number loop
    seal_number := v_seal.seal_number;
    log := 'seal';
    row_uuid := null;
    if v_seal.seal_number <> coalesce(v_before.seal_number, 0) + 1 then
      finding := 'seal_missing';
      detail := jsonb_build_object('before', v_seal.seal_number, 'after', v_before.seal_number);
      v_found := true;
      return next;
    elsif v_seal.previous_digest <> coalesce(v_before.digest, decode(repeat('00', 32), 'hex'))
       or v_seal.digest <> tasker.seal_digest(v_seal) then
      finding := 'seal_changed';
      detail := jsonb_build_object('digest', encode(v_seal.digest, 'hex'), 'computed', encode(tasker.seal_digest(v_seal), 'hex'),
                                   'previous_digest', encode(v_seal.previous_digest, 'hex'));
      v_found := true;
      return next;
    end if;
    v_before := v_seal;

    select array_agg(r.change_id order by r.change_id)
      into v_missing
      from (select g.change_id
              from unnest(v_seal.change_ids) as u(ids) cross join lateral generate_series(lower(u.ids), upper(u.ids) - 1) as g(change_id)
            except
            select c.change_id from tasker.changes c
             where c.change_id between lower(v_seal.change_ids) and upper(v_seal.change_ids) - 1) r;
    if v_missing is not null then
      finding := 'change_missing';
      log := 'change';
      detail := jsonb_build_object('change_id', v_missing[1], 'missing', cardinality(v_missing));
      v_found := true;
      return next;
      continue;  -- without it the places of what follows are shifted
    end if;

    -- the first row that is not what was sealed
    with leaves as materialized (
      select l.* from tasker.audit_leaves(v_seal.change_ids) l
    ), gone as materialized (
      select (array_agg(l.row_uuid order by l.row_uuid))[1] as first, (array_agg(l.row_uuid order by l.row_uuid desc))[1] as last
        from leaves l where l.leaf is null and l.row_uuid is not null
    ), purged as materialized (
      select u.row_uuid
        from gone g
        join tasker.purged_tasks k on k.row_uuids[1] <= g.last and k.row_uuids[cardinality(k.row_uuids)] >= g.first
       cross join lateral unnest(k.row_uuids) as u(row_uuid)
    )
    select case
             when l.place is null then 'row_missing'
             when l.log = 'change' then 'change_changed'
             when s.leaf = '' and l.leaf is null then 'row_missing'
             when l.leaf is null then 'row_missing'
             when s.leaf is null or s.leaf = '' then 'row_inserted'
             when substr(s.leaf, 1, 32) <> substr(l.leaf, 1, 32) then 'row_changed'
             when length(s.leaf) < length(l.leaf) then 'audit_row_inserted'
             when length(s.leaf) > length(l.leaf) then 'audit_row_missing'
             else 'audit_row_changed'
           end, coalesce(l.log, 'change'), l.row_uuid,
           jsonb_build_object('change_id', l.change_id, 'place', coalesce(l.place, s.place),
                              'sealed', encode(s.leaf, 'hex'), 'computed', encode(l.leaf, 'hex'))
      into finding, log, row_uuid, detail
      from unnest(v_seal.leaves) with ordinality as s(leaf, place)
      full join leaves l on l.place = s.place
      left join purged p on p.row_uuid = l.row_uuid and l.leaf is null  -- gone with evidence
     where (s.leaf is distinct from l.leaf or s.leaf = '') and p.row_uuid is null
     order by coalesce(l.place, s.place)
     limit 1;
    if found then
      v_found := true;
      return next;
    end if;
  end loop;

  -- below the last seal's mark everything was decided: what is there and not sealed was put there later
  return query
  select 'change_inserted', null::bigint, 'change', null::uuid,
         jsonb_build_object('change_id', c.change_id, 'log', c.log, 'transition_uuids', c.transition_uuids)
    from tasker.changes c
   where c.change_id < v_before.settled_below
     and not exists (select from tasker.audit_seals s where s.change_ids @> c.change_id)
   order by c.change_id
   limit 1;
  v_found := v_found or found;
  return query
  select 'purge_changed', null::bigint, 'event', e.audit_event_uuid, jsonb_build_object('purge_uuid', e.subject, 'digest', e.detail ->> 'digest')
    from tasker.audit_events e
   where e.event = 'tasks_purged' and tasker.purge_digest(e.subject::uuid) is distinct from e.detail ->> 'digest'
   order by e.created_at
   limit 1;
  v_found := v_found or found;
  return query
  select 'purge_changed', null::bigint, 'purge', p.task_uuid, jsonb_build_object('purge_uuid', p.purge_uuid)
    from tasker.purged_tasks p
   where not exists (select from tasker.audit_events e where e.event = 'tasks_purged' and e.subject = p.purge_uuid::text)
   order by p.task_uuid
   limit 1;
  v_found := v_found or found;
  return query
  select 'payload_changed', null::bigint, 'payload', p.payload_uuid,
         jsonb_build_object('sealed', sealed.sha256, 'computed', encode(sha256(convert_to(p.payload::text, 'UTF8')), 'hex'))
    from tasker.step_payloads p
    left join lateral (select t.metadata -> 'result_payload' ->> 'sha256' as sha256
                         from tasker.workflow_step_transitions t where t.workflow_step_transition_uuid = p.payload_uuid
                       union all
                       select a.content::jsonb -> 10 -> 'result_payload' ->> 'sha256'
                         from tasker.archived_rows a where a.month = tasker.uuid_month(p.payload_uuid) and a.row_uuid = p.payload_uuid
                       limit 1) sealed on true
   where encode(sha256(convert_to(p.payload::text, 'UTF8')), 'hex') is distinct from sealed.sha256
   order by p.payload_uuid
   limit 1;
  v_found := v_found or found;
  return query
  select 'row_inserted', null::bigint, r.log, r.row_uuid, jsonb_build_object('created_at', r.created_at)
    from tasker.unaccounted_rows() r
   order by r.created_at, r.row_uuid
   limit 1;
  v_found := v_found or found;
  return query
  select 'current_row_changed', null::bigint, r.log, r.row_uuid, '{}'::jsonb
    from tasker.misplaced_current_rows() r
   order by r.row_uuid
   limit 1;
  v_found := v_found or found;
  -- counts follow from the rows, so they are looked at only if those are what was sealed
  if not v_found then
    return query
    select 'count_changed', null::bigint, m.log, null::uuid,
           jsonb_build_object('width', m.width, 'bucket', m.bucket, 'kept', m.kept, 'counted', m.counted)
      from tasker.miscounted() m
     order by m.width, m.bucket, m.log
     limit 1;
  end if;
end
$$;
comment on function tasker.verify_audit(bigint) is
  'Computes every seal from p_first_seal on again and names the first row of each that was changed, removed or inserted; then looks for rows and changes that nobody recorded, for a moved current state, and for counts that do not fit. No row: nothing was found. Whoever can rewrite all seals as well is found by a digest kept outside: verify_digest.';
