create or replace function tasker.refuse_without_reason(p_reason text, p_requested_by text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(trim(p_reason), '') = '' or coalesce(trim(p_requested_by), '') = '' then
    perform tasker.raise_error('TK400', 'a manual action needs a reason and the name of who asks for it',
                               jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by),
                               'Give p_reason and p_requested_by: both are kept in the log.');
  end if;
end
$$;
comment on function tasker.refuse_without_reason(text, text) is 'Manual actions are evidence: who and why can''t be left out.';
