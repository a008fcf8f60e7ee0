create or replace function tasker.seal_digest(p_seal tasker.audit_seals) returns bytea
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select sha256(convert_to(json_build_array(p_seal.format, p_seal.seal_number, p_seal.change_ids::text, p_seal.row_count,
                                            p_seal.total_rows, p_seal.next_change_id, p_seal.settled_below,
                                            (extract(epoch from p_seal.sealed_at) * 1000000)::bigint, p_seal.login,
                                            p_seal.recorded_xid::text)::text, 'UTF8')
                || p_seal.previous_digest
                || (select coalesce(string_agg(l.leaf, '' order by l.place), '') from unnest(p_seal.leaves) with ordinality as l(leaf, place)))
$$;
comment on function tasker.seal_digest(tasker.audit_seals) is 'The digest that this seal must have: over its own columns, the digest before and all leaves.';
