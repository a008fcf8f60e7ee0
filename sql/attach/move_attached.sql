create or replace function tasker.move_attached() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_attachment tasker.attached_lifecycles;
  v_current    tasker.attached_transitions;
  v_known      tasker.attached_transitions;
  v_rule       tasker.lifecycle_transitions;
  v_key        text;
  v_failed     text[] := array[]::text[];  -- guards that do not hold
begin
  select * into v_attachment from tasker.attached_lifecycles a
   where a.attached_table = to_regclass(new.attached_table) and a.detached_at is null;
  if not found then
    perform tasker.raise_error('TK404', format('%s has no lifecycle', coalesce(new.attached_table, 'null')),
                               jsonb_build_object('table', new.attached_table),
                               'Name an attached table with its schema; they stand in tasker.attached_lifecycles.');
  end if;

  -- As the caller: who may not change the row can't lock it, so can't move it. The lock puts those who move the same
  -- row in a queue; what follows is a new statement, which sees what the one before has done.
  execute format('select t.%I::text from %s t where t.%I = $1::%s for no key update', v_attachment.key_column,
                 v_attachment.attached_table, v_attachment.key_column, v_attachment.key_type)
     into v_key using new.entity_key;
  select * into v_current from tasker.attached_transitions t
   where t.attachment_uuid = v_attachment.attachment_uuid and t.entity_key = v_key and t.most_recent;
  if not found then
    perform tasker.raise_error('TK404', format('%s has no row %s', v_attachment.attached_table, coalesce(new.entity_key, 'null')),
                               jsonb_build_object('table', v_attachment.attached_table, 'key', new.entity_key),
                               'The log of a deleted row stays, but nothing moves it.');
  end if;

  if new.metadata ? 'request_id' then
    -- the log is its own memory of requests, for as long as it stands
    select * into v_known from tasker.attached_transitions t
     where t.attachment_uuid = v_attachment.attachment_uuid and t.entity_key = v_key
       and t.metadata ->> 'request_id' = new.metadata ->> 'request_id';
    if found and (v_known.event, v_known.metadata) is distinct from (new.event, new.metadata) then
      perform tasker.raise_error('TK423', format('request id %s was used before for another move of %s %s', new.metadata ->> 'request_id',
                                                 v_attachment.attached_table, v_key),
                                 jsonb_build_object('request_id', new.metadata ->> 'request_id', 'event', v_known.event, 'first_seen', v_known.created_at),
                                 'Use a new id for a new request, or send the same request again.');
    elsif found then
      return null;
    end if;
  end if;

  for v_rule in
    select r.* from tasker.lifecycle_transitions r
     where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.event = new.event
     order by r.ordinal
  loop
    if tasker.custom_guard_holds(v_rule.guard, v_key) then
      new.attachment_uuid := v_attachment.attachment_uuid;
      new.attached_table := v_attachment.attached_table::text;
      new.entity_key := v_key;
      new.namespace := v_attachment.namespace;
      new.lifecycle := v_rule.lifecycle;
      new.from_state := v_rule.from_state;
      new.to_state := v_rule.to_state;
      new.sort_key := v_current.sort_key + 1;
      new.most_recent := null;  -- the trigger after this one, end_attached, may end the newest entry; the caller may not
      return new;
    end if;
    v_failed := array_append(v_failed, v_rule.guard);
  end loop;
  if cardinality(v_failed) > 0 then
    perform tasker.raise_error(
      'TK422', format('%s %s is %s: %s asks for %s', v_attachment.attached_table, v_key, v_current.to_state, new.event, v_failed[1]),
      jsonb_build_object('kind', 'custom', 'table', v_attachment.attached_table, 'key', v_key, 'event', new.event, 'guard', v_failed[1]),
      (select g.description from tasker.guards g where g.guard = v_failed[1]));
  end if;
  perform tasker.refuse_attached(v_attachment.attached_table::text, v_key, v_current.lifecycle, v_current.to_state, new.event, null);
  return null;
end
$$;
comment on function tasker.move_attached() is
  'Fills in an entry of the log of attached tables that names only table, key and event: finds the move that the event is from the current state, under the lock of the row. A request id in metadata that this row''s log has already changes nothing. fire is such an insert.';

create or replace trigger move_attached
  before insert on tasker.attached_transitions
  for each row when (new.sort_key is null)
  execute function tasker.move_attached();
comment on trigger move_attached on tasker.attached_transitions is 'An insert of table, key and event moves the row. For each row, since it fills the row in.';
alter table tasker.attached_transitions enable always trigger move_attached;
