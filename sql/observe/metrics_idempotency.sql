create or replace view tasker.metrics_idempotency as
select k.endpoint, count(*) as requests, sum(k.hits)::bigint as hits,
       sum(k.hits)::double precision / (count(*) + sum(k.hits)) as hit_rate
  from tasker.idempotency_keys k
 group by k.endpoint;
comment on view tasker.metrics_idempotency is 'Idempotency hit rate (seed 003) by function, over the request ids that are still kept.';
comment on column tasker.metrics_idempotency.endpoint is 'The function.';
comment on column tasker.metrics_idempotency.requests is 'Requests that were carried out.';
comment on column tasker.metrics_idempotency.hits is 'Repetitions that were given the stored answer.';
comment on column tasker.metrics_idempotency.hit_rate is 'Repetitions among all calls.';
