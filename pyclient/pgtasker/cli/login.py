"""``pgtasker login``: bind logins to namespaces, which makes tenants of them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import Flag, Reason, RequestedBy, requested_by
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, usage_error

app = App(name="login", help="Bind logins to namespaces.", result_action="return_value")

Login = Annotated[
    str, Parameter(name="LOGIN", help="A login of the server, or public: all that are not bound by name.")
]


@app.command(name="list")
def list_() -> int:
    """List the logins that are bound, to what, and who asked for it and why."""
    with database() as db:
        rows = db.rows(
            """
            select b.login, b.namespaces, b.bound_at, c.requested_by, c.reason, c.done_by
              from tasker.login_bindings b
              left join lateral (select c.* from tasker.login_binding_changes c where c.login = b.login
                                  order by c.created_at desc, c.login_binding_change_uuid desc limit 1) c on true
             order by b.login
            """
        )
    output.emit_rows(
        rows,
        ("login", "namespaces", "bound_at", "requested_by", "reason"),
        empty="no login is bound: each sees all namespaces",
    )
    return OK


@app.command
def bind(
    login: Login,
    /,
    *,
    namespace: Annotated[
        list[str] | None, Parameter(negative="", help="A namespace that it sees and moves; may be repeated.")
    ] = None,
    nothing: Annotated[bool, Flag, Parameter(help="It sees no namespace.")] = False,
    everything: Annotated[bool, Flag, Parameter(help="It sees all namespaces, whatever public is bound to.")] = False,
    reason: Reason,
    by: RequestedBy = None,
) -> int:
    """Bind a login to namespaces, in place of what it was bound to. Takes a member of tasker_owner."""
    if sum((bool(namespace), nothing, everything)) != 1:
        raise usage_error("to what? give --namespace NS (may be repeated), --nothing or --everything")
    namespaces = None if everything else namespace or []
    with database() as db:
        state = db.client.attempt_command("bind_login", login, reason, requested_by(by), {"namespaces": namespaces})
    _say(login, state)
    return OK


@app.command
def unbind(login: Login, /, *, reason: Reason, by: RequestedBy = None) -> int:
    """Take the binding of a login away: it is held as public is, or not at all."""
    with database() as db:
        state = db.client.attempt_command("unbind_login", login, reason, requested_by(by))
    _say(login, state)
    return OK


def _say(login: str, state: str) -> None:
    output.answer({"login": login, "state": state}, state)
