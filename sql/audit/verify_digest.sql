create or replace function tasker.verify_digest(
  p_line text,
  out finding     text,
  out seal_number bigint,
  out detail      jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_digest text := substring(p_line from '"digest" ?: ?"([0-9a-f]{64})"');
  v_seal   tasker.audit_seals;
begin
  perform tasker.refuse_bound_login('a digest covers all of them');
  seal_number := substring(p_line from '"seal" ?: ?([0-9]{1,18})[,}]')::bigint;
  if v_digest is null or seal_number is null then
    perform tasker.raise_error('TK400', 'this is not a line of audit_digest', jsonb_build_object('line', left(p_line, 500)),
                               'Give one line as audit_digest returned it, unchanged.');
  end if;
  select * into v_seal from tasker.audit_seals s where s.seal_number = verify_digest.seal_number;
  if not found then
    finding := 'seal_missing';
    detail := jsonb_build_object('kept', v_digest, 'newest', (select max(s.seal_number) from tasker.audit_seals s));
    return next;
  elsif encode(v_seal.digest, 'hex') <> v_digest then
    finding := 'digest_differs';
    detail := jsonb_build_object('kept', v_digest, 'found', encode(v_seal.digest, 'hex'));
    return next;
  end if;
end
$$;
comment on function tasker.verify_digest(text) is
  'Compares a line of audit_digest that was kept outside with the seals here. No row: it fits. With verify_audit, which shows that the seals fit the rows, nothing up to that seal was changed since.';
