create or replace function tasker.audit_digest(p_seal_number bigint default null) returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_bound_login('a digest covers all of them');
  return (
    select json_build_object('format', s.format, 'database', current_database(), 'seal', s.seal_number, 'rows', s.total_rows,
                             'sealed_at', to_char(s.sealed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                             'digest', encode(s.digest, 'hex'))::text
      from tasker.audit_seals s
     where p_seal_number is null or s.seal_number = p_seal_number
     order by s.seal_number desc
     limit 1);
end
$$;
comment on function tasker.audit_digest(bigint) is
  'One line to keep outside of the database: the digest of a seal, by default of the newest. It covers all seals before. Null without a seal.';
