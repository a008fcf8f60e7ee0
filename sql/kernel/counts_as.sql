create or replace function tasker.counts_as(p_counts_as text, p_on_failure text, p_left_out boolean) returns text
language sql
immutable
return case when p_counts_as = 'failed' and (p_on_failure = 'continue' or p_left_out) then 'satisfied' else p_counts_as end;
comment on function tasker.counts_as(text, text, boolean) is
  'The progress counter of a step: an optional step that failed and one that its condition left out hold nobody up, so they count as satisfied.';
