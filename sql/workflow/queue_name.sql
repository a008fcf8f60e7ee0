create or replace function tasker.queue_name(p_namespace text) returns text
language sql
immutable
-- pgmq takes at most 47 lower-case characters; a namespace that does not fit gets a name made from its hash
return case when p_namespace ~ '^[a-z0-9][a-z0-9_]{0,28}$' then 'worker_' || p_namespace || '_queue'
            else 'worker_' || substr(md5(p_namespace), 1, 24) || '_queue' end;
comment on function tasker.queue_name(text) is 'The pgmq queue in which the claimable steps of a namespace stand.';
