create or replace function tasker.metrics_label(p_name text, p_value text) returns text
language sql
immutable
return p_name || '="' || replace(replace(replace(coalesce(p_value, ''), '\', '\\'), '"', '\"'), e'\n', '\n') || '"';
comment on function tasker.metrics_label(text, text) is 'One label of a Prometheus sample, quoted.';
