"""``pgtasker template``: register and read workflow templates."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from pgtasker.cli import _output as output
from pgtasker.cli._arguments import WorkflowFile, load_files
from pgtasker.cli._database import database
from pgtasker.cli._errors import OK, CommandError
from pgtasker.cli._settings import settings

app = App(name="template", help="Register and read workflow templates.", result_action="return_value")


@app.command
def add(
    *files: WorkflowFile,
    namespace: Annotated[str | None, Parameter(help="Register it in this namespace instead of the file's.")] = None,
) -> int:
    """Register templates from files. The database judges them and names all problems at once."""
    loaded = load_files(files)
    stored: list[dict[str, Any]] = []
    with database() as db:
        for each in loaded:
            template = each.graph if namespace is None else {**each.graph, "namespace": namespace}
            stored.append(
                {"file": each.source, "named_task_uuid": db.client.register_template(template), "name": each.name}
            )
    if settings.json:
        output.emit_json(stored)
    else:
        for row in stored:
            output.line(str(row["named_task_uuid"]))
            output.talk(f"{row['name']} registered; run it: pgtasker task create {row['name']}")
    return OK


@app.command(name="list")
def list_(
    *, namespace: str | None = None, name: Annotated[str | None, Parameter(help="% stands for anything.")] = None
) -> int:
    """List templates, newest first."""
    with database() as db:
        rows = db.rows(
            """
            select t.namespace, t.name, t.version, t.vocabulary, t.description, t.created_at, t.named_task_uuid,
                   (select count(*) from tasker.named_steps s where s.named_task_uuid = t.named_task_uuid) as steps
              from tasker.named_tasks t
             where (%(namespace)s::text is null or t.namespace = %(namespace)s)
               and (%(name)s::text is null or t.name like %(name)s)
             order by t.created_at desc, t.named_task_uuid desc
            """,
            {"namespace": namespace, "name": name},
        )
    output.emit_rows(
        rows, ("namespace", "name", "version", "vocabulary", "steps", "created_at"), empty="no template yet"
    )
    return OK


@app.command
def show(
    name: Annotated[str, Parameter(name="NAME")],
    /,
    *,
    version: Annotated[str | None, Parameter(help="The newest registered if left out.")] = None,
    namespace: str = "default",
) -> int:
    """Show one template and its steps."""
    with database() as db:
        template = db.row(
            """
            select * from tasker.named_tasks
             where namespace = %s and name = %s and version = coalesce(%s::text, version)
             order by created_at desc, named_task_uuid desc limit 1
            """,
            (namespace, name, version),
        )
        if template is None:
            wanted = name if version is None else f"{name} {version}"
            raise CommandError(
                f"namespace {namespace} has no template {wanted}", hint="list them: pgtasker template list"
            )
        steps = db.rows(
            """
            select s.ordinal, s.name, s.handler, s.arguments, s.retryable, s.max_attempts, s.base_delay, s.max_delay,
            s.jitter, s.timeout,
                   array(select d.name from tasker.named_steps d
                          where d.named_task_uuid = s.named_task_uuid and d.ordinal = any(s.depends_on) order by
                          d.ordinal) as depends_on
              from tasker.named_steps s
             where s.named_task_uuid = %s
             order by s.ordinal
            """,
            (template["named_task_uuid"],),
        )
    if settings.json:
        output.emit_json({"template": template, "steps": steps})
        return OK
    output.emit_record(template, skip=("configuration",))
    output.heading(f"steps ({len(steps)})")
    output.emit_rows(steps, ("name", "handler", "depends_on", "max_attempts", "timeout", "arguments"), empty="none")
    return OK
