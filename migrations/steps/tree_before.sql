-- Notes what is there, so that tree_after.sql can tell what the tree made.
set local search_path = '';
set local check_function_bodies = off;
do $do$
begin
    perform set_config('pgtasker.tree_before', coalesce(jsonb_object_agg(identity, mark), '{}')::text, true)
    from (/*tree_objects*/) as objects;
end
$do$;
