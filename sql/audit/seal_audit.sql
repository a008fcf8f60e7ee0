create or replace function tasker.seal_audit(
  p_limit int default 100000,
  out seal_number bigint,
  out changes     bigint,
  out row_count   bigint,
  out digest      text,
  out more        boolean
) returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_last     tasker.audit_seals;
  v_seal     tasker.audit_seals;
  v_snapshot pg_snapshot;
  v_next     bigint;
  v_ids      bigint[] := array[]::bigint[];
  v_rows     bigint := 0;
  v_change   record;
begin
  perform tasker.refuse_bound_login('a seal covers all of them');
  if p_limit is null or p_limit not between 1 and 1000000 then
    perform tasker.raise_error('TK400', format('can''t seal %s rows at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Seal 1 to 1,000,000 rows in one call.');
  elsif current_setting('transaction_isolation') <> 'read committed' then
    perform tasker.raise_error('TK400', 'sealing needs to see what others have sealed meanwhile',
                               jsonb_build_object('transaction_isolation', current_setting('transaction_isolation')),
                               'Call it under READ COMMITTED.');
  end if;
  -- one sealer at a time; readers and writers of evidence are not held up
  lock table tasker.audit_seals in share row exclusive mode;
  select * into v_last from tasker.audit_seals s order by s.seal_number desc limit 1;

  -- Every change is begun by a transaction that has its number before it takes a change_id. So what is begun by now belongs
  -- to transactions older than this one, whose number comes last. If it has a number already, younger ones may be under way,
  -- and nothing is settled.
  if pg_current_xact_id_if_assigned() is null then
    select case when q.is_called then q.last_value + 1 else q.last_value end into v_next from tasker.changes_change_id_seq q;
  else
    v_next := coalesce(v_last.settled_below, 0);
  end if;
  v_seal.recorded_xid := pg_current_xact_id();
  v_snapshot := pg_current_snapshot();

  -- whole changes, as many as stay within the limit, and one at least
  more := false;
  for v_change in
    select c.change_id, cardinality(c.transition_uuids) as rows from tasker.unsealed_changes c order by c.change_id
  loop
    v_rows := v_rows + v_change.rows;
    if v_rows > p_limit and cardinality(v_ids) > 0 then
      more := true;
      v_next := least(v_next, v_change.change_id);
      exit;
    end if;
    v_ids := v_ids || v_change.change_id;
  end loop;
  changes := cardinality(v_ids);
  if changes = 0 then
    seal_number := v_last.seal_number;
    digest := encode(v_last.digest, 'hex');
    row_count := 0;
    return;
  end if;

  v_seal.seal_number := coalesce(v_last.seal_number, 0) + 1;
  v_seal.format := 'v1';
  select range_agg(int8range(i, i, '[]')) into v_seal.change_ids from unnest(v_ids) i;
  select array_agg(coalesce(l.leaf, '') order by l.place), count(*) filter (where l.row_uuid is not null)
    into v_seal.leaves, v_seal.row_count
    from tasker.audit_leaves(v_seal.change_ids) l;
  v_seal.total_rows := coalesce(v_last.total_rows, 0) + v_seal.row_count;
  v_seal.previous_digest := coalesce(v_last.digest, decode(repeat('00', 32), 'hex'));
  v_seal.next_change_id := v_next;
  -- What was begun when an older seal was made is decided as soon as all transactions older than that seal's are over, and
  -- this seal has seen it. Where the server has not come as far as that number yet, it is another server: the rows were
  -- restored, and nothing is under way.
  select least(v_next, greatest(coalesce(max(s.next_change_id), 0), coalesce(v_last.settled_below, 0)))
    into v_seal.settled_below
    from tasker.audit_seals s
   where s.next_change_id > coalesce(v_last.settled_below, 0)
     and (s.recorded_xid < pg_snapshot_xmin(v_snapshot) or s.recorded_xid >= pg_snapshot_xmax(v_snapshot));
  v_seal.sealed_at := clock_timestamp();
  v_seal.login := session_user;
  v_seal.digest := tasker.seal_digest(v_seal);
  insert into tasker.audit_seals select (v_seal).*;
  perform tasker.count_sealed(v_seal.change_ids);

  seal_number := v_seal.seal_number;
  row_count := v_seal.row_count;
  digest := encode(v_seal.digest, 'hex');
end
$$;
comment on function tasker.seal_audit(int) is
  'Seals the changes that are committed and not sealed yet, with all their rows, about p_limit of them: log rows, audit rows, refusals, events; and counts them in audit_counts. more: call again. Late commits are sealed by the next call. Two callers go one after the other.';
