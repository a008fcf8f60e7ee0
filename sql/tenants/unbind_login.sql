create or replace function tasker.unbind_login(p_login text, p_reason text, p_requested_by text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.set_login_binding(p_login, 'unbind', null, p_reason, p_requested_by);
end
$$;
comment on function tasker.unbind_login(text, text, text) is
  'Takes the binding of a login away: from its next call on it is held as public is, or not at all. For members of tasker_owner.';
