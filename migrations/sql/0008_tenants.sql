-- Namespaces as tenants: which logins are bound to which namespaces, and who decided it.

create table tasker.login_bindings (
  login      text primary key,
  namespaces text[],
  bound_at   timestamptz not null default clock_timestamp()
);
comment on table tasker.login_bindings is
  'Logins that see and move only what stands in certain namespaces. A login without a row is as one bound to all, unless public has a row.';
comment on column tasker.login_bindings.login is 'Name of the login (session_user), or public: what holds for logins without a row of their own.';
comment on column tasker.login_bindings.namespaces is 'What it sees and moves; empty: nothing; null: everything.';
comment on column tasker.login_bindings.bound_at is 'Since when.';

create table tasker.login_binding_changes (
  login_binding_change_uuid uuid primary key default tasker.uuid_generate_v7(),
  login                     text not null,
  action                    text not null check (action in ('bind', 'unbind')),
  namespaces                text[],
  previous_namespaces       text[],
  reason                    text not null,
  requested_by              text not null,
  done_by                   text not null default session_user,
  application_name          text default current_setting('application_name', true),
  client_address            inet default inet_client_addr(),
  created_at                timestamptz not null default clock_timestamp()
);
comment on table tasker.login_binding_changes is 'Append-only log of login_bindings: who was bound to what, by whom and why.';
comment on column tasker.login_binding_changes.login_binding_change_uuid is 'Key.';
comment on column tasker.login_binding_changes.login is 'The login that was bound or unbound.';
comment on column tasker.login_binding_changes.action is 'bind or unbind.';
comment on column tasker.login_binding_changes.namespaces is 'Its namespaces from then on; null: everything.';
comment on column tasker.login_binding_changes.previous_namespaces is 'Its namespaces before; null: everything.';
comment on column tasker.login_binding_changes.reason is 'Why.';
comment on column tasker.login_binding_changes.requested_by is 'Who asked for it, as the caller says.';
comment on column tasker.login_binding_changes.done_by is 'The login that did it.';
comment on column tasker.login_binding_changes.application_name is 'What its application calls itself.';
comment on column tasker.login_binding_changes.client_address is 'Where it came from; null for a local socket.';
comment on column tasker.login_binding_changes.created_at is 'When.';
create index login_binding_changes_created_at_idx on tasker.login_binding_changes (created_at);
comment on index tasker.login_binding_changes_created_at_idx is 'Who was bound in a period?';

-- What a login bound to namespaces registers belongs to them. Workers have this column since they exist.
alter table tasker.processors add column namespaces text[];
comment on column tasker.processors.namespaces is 'The namespaces to which the login that registered it was bound; null: all.';

-- An answer is for the login that got it. Those stored before are nobody's: they expire within the hour.
alter table tasker.idempotency_keys add column login text not null default '';
comment on column tasker.idempotency_keys.login is 'The login that made the request: its ids and answers are its own.';
alter table tasker.idempotency_keys alter column login set default session_user;
alter table tasker.idempotency_keys drop constraint idempotency_keys_pkey;
alter table tasker.idempotency_keys add primary key (request_id, login);
