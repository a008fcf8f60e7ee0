do $revision_is$
begin
  if (select v.version_num from tasker.alembic_version v) is distinct from '/*revision*/' then
    raise exception 'this script upgrades from revision /*revision*/, and the database is at %',
      coalesce((select v.version_num from tasker.alembic_version v), 'none')
      using hint = 'Print the script for the revision at which it is: pgtasker migrate --sql --from REVISION.';
  end if;
end
$revision_is$;
