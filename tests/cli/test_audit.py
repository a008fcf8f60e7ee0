"""``pgtasker audit seal``, ``verify`` and ``export-digest``, as cron and an auditor run them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.audit.evidence import triggers_off, work
from tests.cli.conftest import Cli
from tests.kernel.engine import Engine


def test_seal_keep_the_digest_tamper_verify(cli: Cli, database: str, tmp_path: Path) -> None:
    digests = tmp_path / "digests.jsonl"
    assert "nothing is sealed yet" in cli("audit", "verify").stderr
    assert "nothing is sealed yet" in cli("audit", "export-digest", expect=1).stderr
    with psycopg.connect(database, autocommit=True) as conn:
        engine = Engine(conn)
        work(engine)
        sealed = cli("--json", "audit", "seal", "--limit", "5").json
        assert [row["seal_number"] for row in sealed] == list(range(1, len(sealed) + 1))
        assert "nothing new to seal" in cli("audit", "seal").stderr
        for _ in range(2):
            cli("audit", "export-digest", "--out", str(digests))
        kept = digests.read_text().splitlines()
        assert [json.loads(line)["digest"] for line in kept] == [sealed[-1]["digest"]] * 2
        verified = cli("audit", "verify", "--digest", str(digests))
        assert "2 kept digests fit" in verified.stderr
        assert verified.stdout == ""
        row = engine.one("select task_transition_uuid from tasker.task_transitions limit 1")
        with triggers_off(engine, "task_transitions"):
            engine.run("update tasker.task_transitions set event = 'forged' where task_transition_uuid = %s", row)
        (found,) = cli("--json", "audit", "verify", expect=1).json
        assert (found["finding"], found["row_uuid"]) == ("row_changed", str(row))
        with triggers_off(engine, "audit_seals"):
            engine.run("delete from tasker.audit_seals")
        cli("audit", "seal")
        found = cli("--json", "audit", "verify", "--digest", str(digests), expect=1).json
        # what was sealed twice was counted twice
        assert {row["finding"] for row in found} - {"count_changed"} in ({"seal_missing"}, {"digest_differs"})


def test_a_file_without_digests_proves_nothing(cli: Cli, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "there is no digest" in cli("audit", "verify", "--digest", str(empty), expect=2).stderr
    assert "can't read" in cli("audit", "verify", "--digest", str(tmp_path / "missing"), expect=2).stderr
    empty.write_text("nonsense\n")
    assert "TK400" in cli("audit", "verify", "--digest", str(empty), expect=1).stderr


def test_a_policy_a_hold_the_archive_the_purge(cli: Cli, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        engine = Engine(conn)
        work(engine)
        engine.run("update tasker.tasks set created_at = created_at - interval '1 year', started_at = null, completed_at = completed_at - interval '1 year'")  # fmt: skip
        task = engine.one("select task_uuid from tasker.tasks")
        policy = ("--archive-after", "30 days", "--purge-after", "60 days", "--description", "Records 4.2")
        cli("audit", "policy", "short", *policy)
        assert "TK400" in cli("audit", "policy", "short", *policy[:-1], " ", expect=1).stderr
        cli("audit", "hold", task, "--reason", "case 7", "--by", "counsel")
        assert cli("--json", "audit", "archive", "short").json == {"archived": 0, "rows": 0}
        assert "is released" in cli("audit", "release", task, "--reason", "closed").stderr
        assert "was not held" in cli("audit", "release", task, "--reason", "closed").stderr
        archived = cli("--json", "audit", "archive", "short", "--by", "ada").json
        assert archived["archived"] == 1
        assert cli("--json", "audit", "purge", "short", "--by", "ada").json == {"purged": 1, "rows": archived["rows"]}
        assert engine.one("select requested_by from tasker.audit_events where event = 'tasks_purged'") == "ada"
    cli("audit", "verify")


def test_reports_in_three_formats(cli: Cli, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        engine = Engine(conn)
        work(engine)
        task = engine.task([{"name": "only"}])
        engine.run("select tasker.cancel_task(%s, 'a \"reason\",\nin two lines', 'ada')", task)
        correlation = engine.one("select correlation_id from tasker.tasks where task_uuid = %s", task)
    cli("audit", "seal")
    period = ("--from", "2000-01-01", "--to", "2100-01-01")
    page = cli("audit", "report", *period, "--verify").stdout
    assert "yes, nothing was found" in page
    assert "reviewed by" in page
    rows = cli("audit", "report", "interventions", *period, "--format", "jsonl").json_lines
    (cancelled,) = [row for row in rows if row["event"] == "cancel" and row["log"] == "task"]
    assert (cancelled["requested_by"], cancelled["subject"]) == ("ada", str(task))
    table = list(
        csv.DictReader(io.StringIO(cli("audit", "report", "actions", "--of", "ada", *period, "--format", "csv").stdout))
    )
    assert {row["reason"] for row in table} == {'a "reason",\nin two lines'}
    assert json.loads(table[0]["detail"])["manual"] is True
    assert str(task) in cli("audit", "report", "correlation", "--of", str(correlation), *period).stdout
    sample = ("audit", "report", "sample", "--seed", "1", "--size", "1", *period, "--format", "jsonl")
    assert cli(*sample).stdout == cli(*sample).stdout != ""
    for report in ("failures", "completeness", "population", "retention", "access"):
        cli("audit", "report", report, *period)
    assert "--seed" in cli("audit", "report", "sample", *period, expect=2).stderr
    assert "--of" in cli("audit", "report", "worker", *period, expect=2).stderr
    assert "not a uuid" in cli("audit", "report", "worker", "--of", "x", *period, expect=2).stderr
    cli("audit", "report", "--from", "yesterday noon-ish", "--to", "2100-01-01", expect=1)


NOWHERE = "01890000-0000-7000-8000-000000000000"


def test_every_refused_command_leaves_a_row(cli: Cli, database: str) -> None:
    verbs = [
        *(("task", verb) for verb in ("cancel", "resolve", "give-up", "reset", "resume", "pass-validation", "fail-validation")),
        *(("step", verb) for verb in ("retry", "resolve", "cancel", "skip", "reset")),
        *(("worker", verb) for verb in ("start", "pause", "resume", "terminate")),
        ("breaker", "reset"), ("audit", "hold"), ("audit", "release"), ("login", "unbind"),
    ]  # fmt: skip
    for verb in verbs:
        error = cli("--json", *verb, NOWHERE, "--reason", "test", "--by", "ada", expect=1).error
        assert error["code"] == "TK404", verb
        assert error["hint"] and error["detail"], verb
    with psycopg.connect(database, autocommit=True) as conn:
        kept = Engine(conn).rows(
            "select code, detail, application_name from tasker.rejected_transitions order by created_at"
        )
    assert {row["code"] for row in kept} == {"TK404"}
    assert [row["detail"]["command"].partition("_")[0] for row in kept] == [verb.partition("-")[0] for _, verb in verbs]
    assert all(row["detail"]["target"] == NOWHERE and row["detail"]["requested_by"] == "ada" for row in kept)
    assert {row["application_name"] for row in kept} == {"pgtasker-cli"}


def test_a_login_is_bound_shown_and_unbound(cli: Cli, database: str, login: Callable[..., str]) -> None:
    name = str(conninfo_to_dict(login("tasker_client"))["user"])
    assert "no login is bound" in cli("login", "list").stderr
    assert "to what?" in cli("login", "bind", name, "--reason", "tenant", expect=2).stderr
    assert "to what?" in cli("login", "bind", name, "--nothing", "--everything", "--reason", "tenant", expect=2).stderr
    bind = ("login", "bind", name, "--namespace", "shop", "--namespace", "stock", "--reason", "tenant", "--by", "ada")
    assert cli("--json", *bind).json == {"login": name, "state": "bound"}
    assert cli("login", "bind", "public", "--nothing", "--reason", "nobody else").stdout.strip() == "bound"
    bound = {row["login"]: row for row in cli("--json", "login", "list").json}
    assert (bound[name]["namespaces"], bound[name]["reason"], bound[name]["requested_by"]) == (
        ["shop", "stock"],
        "tenant",
        "ada",
    )
    assert bound["public"]["namespaces"] == []
    assert name in cli("login", "list").stdout
    shown = cli("--json", "grants", "--print").json
    assert [(row["login"], row["namespaces"]) for row in shown["bindings"]] == [
        (name, ["shop", "stock"]),
        ("public", []),
    ]
    (member,) = shown["members"]
    assert (member["login"], member["binding"], member["namespaces"]) == (name, "own", ["shop", "stock"])
    assert "shop" in cli("grants", "--print").stdout
    cli("login", "bind", name, "--everything", "--reason", "trusted")
    assert {row["login"]: row["namespaces"] for row in cli("--json", "login", "list").json} == {
        name: None,
        "public": [],
    }
    for bound_login in (name, "public"):
        assert cli("login", "unbind", bound_login, "--reason", "moved out").stdout.strip() == "unbound"
    assert cli("--json", "login", "list").json == []
    assert (
        cli("--json", "login", "bind", "nobody-of-ours", "--nothing", "--reason", "x", expect=1).error["code"]
        == "TK404"
    )
    assert (
        cli("--json", "login", "bind", "public", "--namespace", " ", "--reason", "x", expect=1).error["code"] == "TK400"
    )
    with psycopg.connect(database, autocommit=True) as conn:
        assert Engine(conn).values("select code from tasker.rejected_transitions order by created_at") == [
            "TK404",
            "TK400",
        ]


def test_an_operator_binds_nobody_and_the_attempt_is_kept(cli: Cli, database: str, login: Callable[..., str]) -> None:
    error = cli(
        *("--json", "--dsn", login("tasker_operator"), "login", "bind", "public", "--everything", "--reason", "me too"), expect=1
    ).error  # fmt: skip
    assert (error["code"], error["message"]) == ("42501", "permission denied for function bind_login")
    with psycopg.connect(database, autocommit=True) as conn:
        assert Engine(conn).values("select code from tasker.rejected_transitions") == ["42501"]
