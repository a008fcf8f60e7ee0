"""``pgtasker grants``: who may do what, read from the server's catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any

from cyclopts import Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, REFUSED
from pgtasker.cli._settings import settings


def grants(
    *,
    print_: Annotated[
        bool, Parameter(name="--print", negative="", help="Print rights and members too, not only what was found.")
    ] = False,
    role: Annotated[str | None, Parameter(help="Only the rights and members of this role.")] = None,
) -> int:
    """Print who may do what in schema tasker, as the catalogue has it, and what about it is not as it should be.

    Ends with 1 if something was found: rights that no migration gave, members whom nothing holds, triggers that are
    switched off.
    """
    with database() as db:
        rights = db.rows(
            "select role, kind, object, privilege, columns, is_grantable from tasker.access_rights"
            " where %s::text is null or role = %s order by role, kind, privilege, object, columns",
            (role, role),
        )
        members = db.rows(
            "select role, login, can_login, through, is_superuser, bypasses_row_security, creates_roles, binding,"
            " namespaces from tasker.access_members where %s::text is null or role = %s order by role, login",
            (role, role),
        )
        bindings = db.rows("select login, namespaces, bound_at from tasker.login_bindings order by login")
        findings = db.rows("select finding, subject, detail from tasker.access_warnings order by 1, 2, 3")
    if settings.json:
        output.emit_json(
            {"rights": rights, "members": members, "bindings": bindings, "findings": findings} if print_ else findings
        )
    else:
        if print_:
            _print_rights(rights)
            output.heading("members")
            output.emit_rows(
                members, ("role", "login", "can_login", "through", "binding", "namespaces"), empty="nobody is a member"
            )
            output.heading("bindings")
            output.emit_rows(
                bindings, ("login", "namespaces", "bound_at"), empty="no login is bound: each sees all namespaces"
            )
            output.heading("findings")
        output.emit_rows(findings, ("finding", "subject", "detail"), empty="nothing found")
    return REFUSED if findings else OK


def _print_rights(rights: Sequence[dict[str, Any]]) -> None:
    """One line for each thing that a role may do, with everything on which it may do it."""
    for role, of_role in groupby(rights, key=lambda right: right["role"]):
        output.heading(role)
        for (privilege, kind), alike in groupby(of_role, key=lambda right: (right["privilege"], right["kind"])):
            objects = [
                right["object"].removeprefix("tasker.")
                + (f" ({', '.join(right['columns'])})" if right["columns"] else "")
                for right in alike
            ]
            output.line(f"{privilege} on {kind}: {', '.join(objects)}")
