create or replace function tasker.counts_as(p_counts_as text, p_on_failure text) returns text
language sql
immutable
return case when p_counts_as = 'failed' and p_on_failure = 'continue' then 'satisfied' else p_counts_as end;
comment on function tasker.counts_as(text, text) is
  'The progress counter of a step: an optional step that failed holds nobody up, so it counts as satisfied.';
