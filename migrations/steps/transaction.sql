-- One transaction, one migration at a time, nothing found by accident on a search path.
set local pgtasker.transaction = 'open';
do $do$
begin
    if coalesce(current_setting('pgtasker.transaction', true), '') <> 'open' then
        raise exception 'this script is one transaction'
            using hint = 'Run it with: psql -1 -v ON_ERROR_STOP=1 -f FILE';
    end if;
    -- 0x7067746173 6b: "pgtask". Held to the end of the transaction, so two migrations queue up.
    perform pg_advisory_xact_lock(123624912155499);
end
$do$;
set local client_min_messages = warning;
set local search_path = '';
