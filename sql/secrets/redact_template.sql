create or replace function tasker.redact_template(p_template jsonb) returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when not jsonb_path_exists(p_template, '$.steps[*].sensitive') then p_template
              else jsonb_set(p_template, '{steps}', (
                select jsonb_agg(case when jsonb_typeof(s.step -> 'sensitive') = 'array' and s.step ? 'arguments'
                                      then jsonb_set(s.step, '{arguments}', tasker.redact(s.step -> 'arguments', tasker.text_array(s.step -> 'sensitive')))
                                      else s.step end order by s.position)
                  from jsonb_array_elements(p_template -> 'steps') with ordinality as s(step, position))) end
$$;
comment on function tasker.redact_template(jsonb) is 'A valid workflow definition without the sensitive arguments of its steps.';
