create or replace function tasker.uuid_month(p_uuid uuid) returns date
language sql
immutable
return (
  select case when m.month between date '2000-01-01' and date '2099-12-01' then m.month else date '0001-01-01' end
    from (select date_trunc('month', timestamp '1970-01-01' + make_interval(secs =>
                   ('x' || left(replace(p_uuid::text, '-', ''), 12))::bit(48)::bigint / 1000))::date as month) m);
comment on function tasker.uuid_month(uuid) is 'First day of the month that a UUIDv7 carries; the first of all months where it carries none of this century.';
