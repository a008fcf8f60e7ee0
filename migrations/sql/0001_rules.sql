-- Rules as data: vocabularies, lifecycles, states, events, transitions; the catalogues of phases, operations, guards,
-- actions and errors. What the rows are stands in sql/; this file only makes the tables.

create schema if not exists tasker;
comment on schema tasker is 'pgtasker: workflow orchestration. Every rule lives here; call the functions, read the views.';

-- The default of every key below, so it must exist before the tables and lives here instead of in sql/.
do $make$
begin
  if to_regprocedure('pg_catalog.uuidv7()') is not null then
    execute 'create function tasker.uuid_generate_v7() returns uuid language sql volatile parallel safe return pg_catalog.uuidv7()';
  else
    -- 48 bits of milliseconds, 12 bits of the fraction (so that keys made in one millisecond still sort), 62 random bits
    execute $body$
      create function tasker.uuid_generate_v7() returns uuid language sql volatile parallel safe
      return (
        select encode(overlay(uuid_send(gen_random_uuid()) placing
                 int8send(((t.us / 1000) << 16) | 28672 | ((t.us % 1000) * 4096 / 1000)) from 1 for 8), 'hex')::uuid
          from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint) as t(us))
    $body$;
  end if;
end
$make$;
comment on function tasker.uuid_generate_v7() is
  'A new UUIDv7 (seed 004''s default of every key). The server''s own uuidv7() where it has one, a portable twin elsewhere.';

create table tasker.schema_info (
  key        text primary key,
  value      text not null,
  updated_at timestamptz not null default clock_timestamp()
);
comment on table tasker.schema_info is 'What is installed: schema version, checksum of the sql/ tree, pgmq version and where it came from.';
comment on column tasker.schema_info.key is 'What is told.';
comment on column tasker.schema_info.value is 'Its value.';
comment on column tasker.schema_info.updated_at is 'When it was last written.';

create table tasker.error_catalogue (
  code         text primary key check (code ~ '^TK[0-9]{3}$'),
  name         text not null unique,
  http_status  int not null check (http_status between 400 and 599),
  is_retryable boolean not null,
  description  text not null
);
comment on table tasker.error_catalogue is 'Every SQLSTATE that pgtasker raises. Clients, documentation and gateways are made from these rows.';
comment on column tasker.error_catalogue.code is 'The SQLSTATE.';
comment on column tasker.error_catalogue.name is 'Name in snake_case; the Python exception has the same name in CamelCase.';
comment on column tasker.error_catalogue.http_status is 'The HTTP status a gateway answers with.';
comment on column tasker.error_catalogue.is_retryable is 'True when the same call may succeed later without being changed.';
comment on column tasker.error_catalogue.description is 'When it is raised.';

create table tasker.lifecycle_phases (
  phase       text primary key,
  applies_to  text not null check (applies_to in ('task', 'step', 'any')),
  ordinal     int not null,
  description text not null
);
comment on table tasker.lifecycle_phases is 'The canonical phases. The engine acts on these, never on the state names of a vocabulary.';
comment on column tasker.lifecycle_phases.phase is 'Name of the phase.';
comment on column tasker.lifecycle_phases.applies_to is 'Which kind of lifecycle may use it.';
comment on column tasker.lifecycle_phases.ordinal is 'Order in which a reader meets them.';
comment on column tasker.lifecycle_phases.description is 'What is true of an entity in this phase.';

create table tasker.engine_operations (
  operation   text primary key,
  applies_to  text not null check (applies_to in ('task', 'step')),
  description text not null
);
comment on table tasker.engine_operations is 'What the engine itself can do to a task or step. A transition row names the operation that fires it.';
comment on column tasker.engine_operations.operation is 'Name of the operation.';
comment on column tasker.engine_operations.applies_to is 'Which kind of entity it is done to.';
comment on column tasker.engine_operations.description is 'When the engine does it.';

create table tasker.guards (
  guard       text primary key,
  applies_to  text not null check (applies_to in ('task', 'step', 'any')),
  description text not null
);
comment on table tasker.guards is 'The named conditions a transition may ask for; each is a function tasker.guard_<name>(facts).';
comment on column tasker.guards.guard is 'Name used in transition rows.';
comment on column tasker.guards.applies_to is 'Whose facts it reads.';
comment on column tasker.guards.description is 'What must be true.';

create table tasker.transition_actions (
  action         text primary key,
  applies_to     text not null check (applies_to in ('task', 'step', 'any')),
  runs_when      text not null,
  implemented_by text not null,
  description    text not null
);
comment on table tasker.transition_actions is 'What happens in the same transaction as a transition, and which function does it (seed 004, Action System).';
comment on column tasker.transition_actions.action is 'Name of the action.';
comment on column tasker.transition_actions.applies_to is 'Whose transitions cause it.';
comment on column tasker.transition_actions.runs_when is 'The property of the transition that causes it, in words.';
comment on column tasker.transition_actions.implemented_by is 'The function in schema tasker that does it.';
comment on column tasker.transition_actions.description is 'What it does.';

create table tasker.vocabularies (
  vocabulary                text primary key check (vocabulary ~ '^[a-z][a-z0-9_]{0,62}$'),
  description               text not null,
  definition                jsonb not null,
  content_hash              text not null,
  task_lifecycle            text,
  step_lifecycle            text,
  created_at                timestamptz not null default clock_timestamp(),
  updated_at                timestamptz not null default clock_timestamp()
);
comment on table tasker.vocabularies is 'A set of lifecycles that belong together. A workflow runs under one vocabulary.';
comment on column tasker.vocabularies.vocabulary is 'Name.';
comment on column tasker.vocabularies.description is 'What it is for.';
comment on column tasker.vocabularies.definition is 'The definition as it was given to define_vocabulary.';
comment on column tasker.vocabularies.content_hash is 'sha256 of the definition: the same content is stored once.';
comment on column tasker.vocabularies.task_lifecycle is 'The lifecycle that its tasks follow.';
comment on column tasker.vocabularies.step_lifecycle is 'The lifecycle that its steps follow.';
comment on column tasker.vocabularies.created_at is 'When it was first defined.';
comment on column tasker.vocabularies.updated_at is 'When its definition last changed.';

create table tasker.lifecycles (
  lifecycle     text primary key,
  vocabulary    text not null references tasker.vocabularies,
  kind          text not null check (kind in ('task', 'step', 'worker', 'circuit_breaker', 'custom')),
  initial_state text not null,
  description   text not null
);
comment on table tasker.lifecycles is 'One state machine.';
comment on column tasker.lifecycles.lifecycle is 'Name: vocabulary.machine, for example tasker.workflow_step.';
comment on column tasker.lifecycles.vocabulary is 'The vocabulary it belongs to.';
comment on column tasker.lifecycles.kind is 'What kind of entity follows it.';
comment on column tasker.lifecycles.initial_state is 'The state of a new entity.';
comment on column tasker.lifecycles.description is 'What it describes.';

create table tasker.lifecycle_states (
  lifecycle                 text not null references tasker.lifecycles on delete cascade,
  state                     text not null,
  phase                     text not null references tasker.lifecycle_phases,
  ordinal                   int not null,
  is_terminal               boolean not null default false,
  requires_ownership        boolean not null default false,
  is_active                 boolean not null default false,
  is_waiting                boolean not null default false,
  can_be_processed          boolean not null default false,
  is_error                  boolean not null default false,
  is_in_processing_pipeline boolean not null default false,
  is_ready_for_claiming     boolean not null default false,
  satisfies_dependencies    boolean not null default false,
  counts_as                 text not null generated always as (
    case when is_terminal and satisfies_dependencies then 'satisfied'
         when is_terminal then 'failed'
         when phase = 'pending' then 'pending'
         when phase = 'waiting_retry' then 'waiting_retry'
         else 'in_flight' end) stored,
  description               text not null,
  primary key (lifecycle, state)
);
comment on table tasker.lifecycle_states is 'The states of each lifecycle with their canonical phase and the seed''s property flags.';
comment on column tasker.lifecycle_states.lifecycle is 'The lifecycle.';
comment on column tasker.lifecycle_states.state is 'Name of the state, as the seed prints it.';
comment on column tasker.lifecycle_states.phase is 'The canonical phase: what the engine looks at.';
comment on column tasker.lifecycle_states.ordinal is 'Order in which the seed lists it.';
comment on column tasker.lifecycle_states.is_terminal is 'No further transition happens by itself (seed 004: is_terminal).';
comment on column tasker.lifecycle_states.requires_ownership is 'A processor must own the task (seed 004: requires_ownership).';
comment on column tasker.lifecycle_states.is_active is 'Being processed now (seed 004: is_active).';
comment on column tasker.lifecycle_states.is_waiting is 'Waiting for something outside (seed 004: is_waiting).';
comment on column tasker.lifecycle_states.can_be_processed is 'An orchestrator may pick it up (seed 004: can_be_processed).';
comment on column tasker.lifecycle_states.is_error is 'An error state; it may allow a retry (seed 004: is_error).';
comment on column tasker.lifecycle_states.is_in_processing_pipeline is 'In the execution pipeline (seed 004: is_in_processing_pipeline).';
comment on column tasker.lifecycle_states.is_ready_for_claiming is 'A worker may claim it (seed 004: is_ready_for_claiming).';
comment on column tasker.lifecycle_states.satisfies_dependencies is 'Steps that depend on it may start (seed 004: satisfies_dependencies).';
comment on column tasker.lifecycle_states.counts_as is 'The progress counter of its task in which a step in this state stands.';
comment on column tasker.lifecycle_states.description is 'What the state means.';

create table tasker.lifecycle_events (
  lifecycle   text not null references tasker.lifecycles on delete cascade,
  event       text not null,
  category    text not null,
  description text not null,
  primary key (lifecycle, event)
);
comment on table tasker.lifecycle_events is 'The events of each lifecycle, as the seed groups them.';
comment on column tasker.lifecycle_events.lifecycle is 'The lifecycle.';
comment on column tasker.lifecycle_events.event is 'Name of the event.';
comment on column tasker.lifecycle_events.category is 'The seed''s heading for it: lifecycle, discovery, processing, control, system.';
comment on column tasker.lifecycle_events.description is 'What the event tells.';

create table tasker.lifecycle_transitions (
  lifecycle      text not null,
  from_state     text not null,
  event          text not null,
  to_state       text not null,
  ordinal        int not null,
  fired_by       text not null check (fired_by in ('operation', 'automatic', 'timer', 'command')),
  operation      text references tasker.engine_operations,
  guard          text not null references tasker.guards,
  severity       text not null default 'info' check (severity in ('info', 'warning', 'error', 'critical')),
  reports_result boolean not null default false,
  is_legacy      boolean not null default false,
  is_addition    boolean not null default false,
  description    text not null,
  primary key (lifecycle, from_state, event, to_state),
  foreign key (lifecycle, from_state) references tasker.lifecycle_states (lifecycle, state) on delete cascade,
  foreign key (lifecycle, to_state) references tasker.lifecycle_states (lifecycle, state) on delete cascade,
  foreign key (lifecycle, event) references tasker.lifecycle_events (lifecycle, event) on delete cascade
);
comment on table tasker.lifecycle_transitions is
  'The transition rules. Of several rows with the same start and event (or operation) the lowest ordinal whose guard holds wins.';
comment on column tasker.lifecycle_transitions.lifecycle is 'The lifecycle.';
comment on column tasker.lifecycle_transitions.from_state is 'State before.';
comment on column tasker.lifecycle_transitions.event is 'What happened.';
comment on column tasker.lifecycle_transitions.to_state is 'State after.';
comment on column tasker.lifecycle_transitions.ordinal is 'Which row is tried first.';
comment on column tasker.lifecycle_transitions.fired_by is
  'operation: the engine does something; automatic: true as soon as its guard holds; timer: a due time passed; command: someone asks.';
comment on column tasker.lifecycle_transitions.operation is 'The engine operation that fires it; null when only its event does.';
comment on column tasker.lifecycle_transitions.guard is 'The condition that must hold.';
comment on column tasker.lifecycle_transitions.severity is 'Severity of the event in the export (seed 000).';
comment on column tasker.lifecycle_transitions.reports_result is 'The transition persists a result of a worker, so it gets a row in workflow_step_result_audit.';
comment on column tasker.lifecycle_transitions.is_legacy is 'The seed marks the edge as legacy or deprecated.';
comment on column tasker.lifecycle_transitions.is_addition is 'Not drawn in the seed; docs/seeds.md says why it is here.';
comment on column tasker.lifecycle_transitions.description is 'When it is taken.';

create index lifecycle_transitions_operation_idx
  on tasker.lifecycle_transitions (lifecycle, from_state, operation, ordinal);
comment on index tasker.lifecycle_transitions_operation_idx is 'Which transition does an engine operation fire from here?';

alter table tasker.lifecycles
  add constraint lifecycles_initial_state_fkey foreign key (lifecycle, initial_state)
  references tasker.lifecycle_states (lifecycle, state) deferrable initially deferred;

-- Facts that guards read, and the verdicts the kernel passes around.
create type tasker.step_facts as (
  unmet_dependencies int,
  attempts           int,
  max_attempts       int,
  retryable          boolean,
  is_claimed         boolean,
  succeeded          boolean,
  error_category     text
);
comment on type tasker.step_facts is 'What a step guard may look at.';

create type tasker.task_facts as (
  total_steps         int,
  pending_steps       int,
  ready_steps         int,
  in_flight_steps     int,
  waiting_retry_steps int,
  satisfied_steps     int,
  failed_steps        int,
  new_results         int,
  enqueue_failed      boolean
);
comment on type tasker.task_facts is 'What a task guard may look at: how many of its steps stand where.';
