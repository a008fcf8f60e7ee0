-- The text between the dollar quotes is pgmq's own SQL, taken from the PyPI package of that name.
do $do$
begin
    if current_setting('pgtasker.pgmq_source') = 'bundled' then
        execute $pgmq_bundled$/*bundled_sql*/$pgmq_bundled$;
    end if;
end
$do$;
