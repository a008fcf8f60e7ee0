-- A big result stands in a table of its own, once; the log, and what is made from it, say how big it is and what its digest is.
create table tasker.step_payloads (
  payload_uuid       uuid primary key,
  workflow_step_uuid uuid not null,
  task_uuid          uuid not null,
  namespace          text not null,
  size               int not null check (size > 0),
  sha256             text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  payload            jsonb not null,
  created_at         timestamptz not null default clock_timestamp()
);
comment on table tasker.step_payloads is 'Results over the threshold of their namespace, each once; load_result reads them. They stay until their task is purged.';
comment on column tasker.step_payloads.payload_uuid is 'The log row of the result.';
comment on column tasker.step_payloads.workflow_step_uuid is 'The step.';
comment on column tasker.step_payloads.task_uuid is 'The task.';
comment on column tasker.step_payloads.namespace is 'Namespace.';
comment on column tasker.step_payloads.size is 'Bytes of its text.';
comment on column tasker.step_payloads.sha256 is 'Digest of its text, as the log row has it too.';
comment on column tasker.step_payloads.payload is 'The result.';
comment on column tasker.step_payloads.created_at is 'When it was reported.';
create index step_payloads_task_uuid_idx on tasker.step_payloads (task_uuid);
comment on index tasker.step_payloads_task_uuid_idx is 'What belongs to a task?';

alter table tasker.task_namespaces
  add column payload_threshold int not null default 65536 check (payload_threshold between 4096 and 134217728),
  add column payload_limit int not null default 16777216 check (payload_limit between 4096 and 134217728),
  add constraint payload_threshold_is_within_the_limit check (payload_threshold <= payload_limit);
comment on column tasker.task_namespaces.payload_threshold is 'Results of more bytes stand in step_payloads (set_payload_limits).';
comment on column tasker.task_namespaces.payload_limit is 'What has more bytes is refused: results, checkpoints, contexts, arguments, tags (set_payload_limits).';

alter type tasker.claimed_step add attribute payloads text[];
