create or replace function tasker.cron_field(p_field text, p_lowest int, p_highest int, p_names text[] default '{}') returns int[]
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
declare
  v_field  text := lower(p_field);
  v_part   text;
  v_match  text[];
  v_from   int;
  v_to     int;
  v_step   int;
  v_values int[] := array[]::int[];
begin
  for v_place in 1 .. cardinality(p_names) loop
    v_field := regexp_replace(v_field, '\m' || p_names[v_place] || '\M', (p_lowest + v_place - 1)::text, 'g');
  end loop;
  foreach v_part in array string_to_array(v_field, ',') loop
    v_match := regexp_match(v_part, '^(?:(\*)|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([0-9]{1,2}))?$');
    if v_match is null then
      return null;
    end if;
    v_from := coalesce(v_match[2]::int, p_lowest);
    v_step := coalesce(v_match[4]::int, 1);
    -- 5/10 is from 5 on, as in 5-59/10
    v_to := coalesce(v_match[3]::int, case when v_match[1] is not null or v_match[4] is not null then p_highest else v_from end);
    if v_from < p_lowest or v_to > p_highest or v_from > v_to or v_step = 0 then
      return null;
    end if;
    v_values := v_values || array(select generate_series(v_from, v_to, v_step));
  end loop;
  return v_values;
end
$$;
comment on function tasker.cron_field(text, int, int, text[]) is
  'The numbers that one field of a cron expression stands for; null where it can''t be read. p_names stand for the numbers from p_lowest on.';
