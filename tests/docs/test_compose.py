"""docker-compose.yml and what it builds and mounts. No container engine runs here; the rest is checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from ruamel.yaml import YAML

from pgtasker import Client, NotFound, NotOwner
from tests.docs.documents import ROOT

COMPOSE = ROOT / "docker-compose.yml"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
LOGINS = {f"pgtasker_{name}": f"tasker_{name}" for name in ("worker", "client", "operator")} | {
    "pgtasker_tenant": "tasker_client"
}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(COMPOSE)["services"]
    return loaded


def test_it_follows_the_compose_specification() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_images_have_plain_names(services: dict[str, Any]) -> None:
    images = {service["image"] for service in services.values()}
    images |= {
        line.split()[1] for line in CONTAINERFILE.read_text(encoding="utf-8").splitlines() if line.startswith("FROM ")
    }
    assert {image for image in images if not re.fullmatch(r"[a-z]+(:[\w.-]+)?", image)} == set()


def test_passwords_come_from_the_environment() -> None:
    for line in COMPOSE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\s*\w*PASSWORD:", line):
            assert re.search(r": \$\{PGTASKER_\w+_PASSWORD:-pgtasker\}$", line), line
        assert not re.search(r"://[^/@\s]+:[^/@\s]+@", line), line


def test_everything_waits_for_what_it_needs(services: dict[str, Any]) -> None:
    def conditions(name: str) -> dict[str, str]:
        return {other: how["condition"] for other, how in services[name]["depends_on"].items()}

    assert conditions("migrate") == {"server": "service_healthy"}
    assert conditions("logins") == {"migrate": "service_completed_successfully"}
    assert conditions("worker")["logins"] == "service_completed_successfully"
    assert "healthcheck" in services["server"] and "healthcheck" in services["worker"]
    for one_shot in ("migrate", "logins"):
        assert services[one_shot]["restart"] == "no"


def test_what_is_copied_and_mounted_exists(services: dict[str, Any]) -> None:
    mounted = [v.split(":")[0] for s in services.values() for v in s.get("volumes", []) if v.startswith(".")]
    assert mounted
    copied = [
        source
        for line in CONTAINERFILE.read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert [path for path in (*mounted, *copied) if not (ROOT / path).exists()] == []
    kept = [
        line[1:]
        for line in CONTAINERFILE.with_name("Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    assert sorted(kept) == sorted(copied)


@pytest.fixture
def logins(server: Any, database: str, services: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Run what service `logins` runs, twice, on a real server; return connection strings by login."""
    psql = Path(server.server.bin_dir) / "psql"
    if not psql.exists():
        pytest.skip(f"no psql in {server.server.bin_dir}")
    script = str(ROOT / "deploy" / "logins.sql")
    command = [argument.replace("/logins.sql", script) for argument in services["logins"]["command"]]
    passwords = {name: "it's a / secret" for name in services["logins"]["environment"] if name.startswith("PGTASKER_")}
    try:
        for _ in range(2):
            ran = subprocess.run(
                [psql, "-d", database, *command[1:]],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, **passwords},
            )
            assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
        yield {login: make_conninfo(database, user=login) for login in LOGINS}
    finally:
        with psycopg.connect(database, autocommit=True) as admin:
            for login in LOGINS:
                admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(login)))


def test_the_logins_can_do_their_work_and_no_more(logins: dict[str, str], services: dict[str, Any]) -> None:
    for login, role in LOGINS.items():
        with psycopg.connect(logins[login]) as conn:
            row = conn.execute(
                "select tasker.schema_version() is not null, pg_has_role(%s, 'member'), rolsuper"
                " from pg_roles where rolname = current_user",
                [role],
            ).fetchone()
            assert row == (True, True, False)
    with Client(logins["pgtasker_client"]) as client:
        task_uuid = client.create_task_from_graph({"name": "one", "steps": [{"name": "only"}]}, namespace="demo")
    with Client(logins["pgtasker_worker"]) as worker:
        (claim,) = worker.claim_steps(worker.register_worker("compose", namespaces=["demo"]))
        worker.complete_step(claim.workflow_step_uuid, claim.claim_uuid, None)
        worker.orchestrate()
        worker.tick()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            worker.create_task_from_graph({"name": "one", "steps": []})
    with Client(logins["pgtasker_operator"]) as operator:
        assert operator.task(task_uuid).state == "complete"
        assert operator.check_consistency() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(logins["pgtasker_operator"]) as conn:
            conn.execute("delete from tasker.tasks")
    with Client(logins["pgtasker_tenant"]) as tenant, Client(logins["pgtasker_client"]) as client:
        foreign = client.create_task_from_graph({"name": "one", "steps": []}, namespace="theirs")
        assert tenant.task(task_uuid).state == "complete"
        assert [task.task_uuid for task in tenant.tasks()] == [task_uuid]
        with pytest.raises(NotFound):
            tenant.task(foreign)
        with pytest.raises(NotOwner):
            tenant.create_task_from_graph({"name": "one", "steps": []}, namespace="theirs")


def test_the_tenant_is_bound_once(logins: dict[str, str], database: str) -> None:
    with psycopg.connect(database) as conn:
        changes = conn.execute("select login, namespaces, requested_by from tasker.login_binding_changes").fetchall()
    assert changes == [("pgtasker_tenant", ["demo"], "deploy/logins.sql")]
