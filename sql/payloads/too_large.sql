create or replace function tasker.too_large(p_what text, p_size int, p_namespace text, p_limit int) returns text
language sql
immutable
return format('%s has %s bytes, and namespace %s takes at most %s', p_what, p_size, p_namespace, p_limit);
comment on function tasker.too_large(text, int, text, int) is 'The message of TK413.';
