create or replace function tasker.retention_policy_or_refuse(p_policy text, p_requested_by text, p_limit int) returns tasker.retention_policies
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_policy tasker.retention_policies;
begin
  perform tasker.refuse_bound_login('retention is not decided by one of them');
  if coalesce(trim(p_requested_by), '') = '' then
    perform tasker.raise_error('TK400', 'who asks for it?', jsonb_build_object('requested_by', p_requested_by),
                               'Give p_requested_by: it is kept with what was removed.');
  elsif p_limit is null or p_limit not between 1 and 10000 then
    perform tasker.raise_error('TK400', format('can''t take %s families of tasks at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Take 1 to 10,000 in one call.');
  end if;
  select * into v_policy from tasker.retention_policies p where p.policy = p_policy;
  if not found then
    perform tasker.raise_error('TK404', format('there is no retention policy %s', coalesce(p_policy, 'null')),
                               jsonb_build_object('policy', p_policy), 'Make it: set_retention_policy.');
  end if;
  return v_policy;
end
$$;
comment on function tasker.retention_policy_or_refuse(text, text, int) is 'The policy under which somebody archives or purges; no policy, no name, no removal.';
