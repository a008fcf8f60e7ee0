"""The dashboard over HTTP: who is let in, what pages show and hide, what may be done from them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from uuid import uuid4

import httpx
import psycopg
import pytest
from markupsafe import escape
from psycopg.conninfo import conninfo_to_dict

from pgtasker.web import api, dashboard
from pgtasker.web.gate import Gate, new_token
from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import DIAMOND, Engine, chain
from tests.web.conftest import Serve, serving

EVIL = """<script>alert(1)</script>"><img src=x onerror=alert(1)>'"""
SECRET = "hunter2-must-not-be-seen"


class Links(HTMLParser):
    """The addresses of a page, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.loads: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            self.hrefs.append(str(found["href"]))
        self.loads += [str(found[name]) for name in ("src", "hx-get", "sse-connect") if found.get(name)]
        self.inline += [name for name in found if name.startswith("on") or name == "style"]
        if tag in ("style", "iframe") or (tag == "script" and not found.get("src")):
            self.inline.append(tag)


class Site:
    """The dashboard on a database that has one of everything, with actions."""

    def __init__(self, address: str, token: str, engine: Engine, keys: dict[str, Any]) -> None:
        self.address = address
        self.token = token
        self.engine = engine
        self.keys = keys
        self.client = httpx.Client(base_url=address, follow_redirects=True, timeout=30)
        self.client.get("/sign-in", params={"token": token})

    def get(self, path: str, **params: Any) -> str:
        answer = self.client.get(path, params=params or None)
        assert answer.status_code == 200, answer.text
        return answer.text

    def csrf(self, path: str) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.get(path))
        assert found is not None
        return found[1]


def fill(engine: Engine) -> dict[str, Any]:
    """Tasks in every phase that a page tells of, with contents that would like to be markup."""
    engine.one(
        "select tasker.register_template(%s)",
        json.dumps(
            {
                "name": "secretive", "namespace": "shop",
                "steps": [{"name": "log in", "arguments": {"password": SECRET}, "sensitive": ["password"], "sensitive_result": True}],
                "sensitive": ["card"],
            }
        ),
    )  # fmt: skip
    secretive = engine.one(
        "select tasker.create_task('secretive', %s, 'shop', p_requested_by => %s)", json.dumps({"card": SECRET}), EVIL
    )
    worker = engine.one("select tasker.register_worker(%s, p_heartbeat_interval => '1 year')", EVIL)
    (held,) = engine.claim(worker, namespace="shop")
    engine.complete(held, {"session": SECRET})
    engine.orchestrate()
    evil = engine.task([{"name": EVIL, "handler": EVIL, "max_attempts": 1}], namespace="shop")
    (held,) = engine.claim(worker, namespace="shop")
    engine.one(
        "select tasker.fail_step(%s, %s, %s, 'permanent')",
        held["workflow_step_uuid"], held["claim_uuid"], json.dumps({"message": EVIL}),
    )  # fmt: skip
    engine.orchestrate()
    diamond = engine.task(DIAMOND, namespace="shop")
    engine.claim(worker, namespace="shop")
    big = engine.task(
        [
            {"name": f"s{n}", "handler": f"h{n % 3}", "depends_on": [f"s{n - 20}"] if n >= 20 else []}
            for n in range(300)
        ],
        namespace="large",
    )
    engine.task([], namespace="large")
    ended = engine.task(chain("a"), namespace="large")
    engine.command("cancel_task", ended)
    engine.one("select tasker.register_template(%s)", json.dumps({"name": "flow", "namespace": "shop", "steps": []}))
    engine.one("select tasker.schedule_tasks('nightly', '30 2 * * *', 'flow', p_namespace => 'shop')")
    engine.one("select tasker.ensure_namespace('closed')")
    engine.row("select * from tasker.attempt_command('pause_namespace', 'closed', 'why', 'ada')")
    engine.one("select tasker.configure_breaker('curl/ü', 1, p_vocabulary => 'pipeline')")
    engine.one("select tasker.record_breaker_result('curl/ü', false)")
    engine.one("select tasker.set_limit('tool', %s, 20, 30, '1 minute')", EVIL)
    engine.task([{"name": "told", "wait_for": {"event": EVIL, "value": "7"}}], namespace="shop")
    supervised = engine.one("select tasker.register_worker('boss', p_vocabulary => 'supervision')")
    engine.row("select * from tasker.attempt_command('pause_worker', %s, 'why', 'ada')", str(supervised))
    return {
        "secretive": secretive, "evil": evil, "evil_step": engine.steps(evil)[EVIL], "diamond": diamond, "big": big,
        "worker": worker, "supervised": supervised, "ended": ended,
    }  # fmt: skip


def make(dsn: str, *, role: str = "tasker_operator", login: str | None = None, actions: bool = True) -> tuple[Any, str]:
    text, token = new_token("ada", role, login)
    gate = Gate(dsn, [token], read_only=True, application_name="pgtasker-dashboard")
    return dashboard.create_app(gate, Gate(dsn, [token]) if actions else None), text


@pytest.fixture(scope="module")
def site(server: TestServer) -> Iterator[Site]:
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        engine = Engine(conn)
        keys = fill(engine)
        app, text = make(dsn)
        with serving(app) as address:
            site = Site(address, text, engine, keys)
            yield site
            site.client.close()


# -- pages


def test_every_link_of_every_page_leads_to_a_page(site: Site) -> None:
    """All that is shown is reached from the overview; nothing is loaded from elsewhere, nothing is inline."""
    seen: set[str] = set()
    wanted = ["/"]
    kinds: dict[str, int] = {}
    while wanted:
        path = wanted.pop()
        # of pages that differ by a key alone some are enough
        kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "*", path)
        kinds[kind] = kinds.get(kind, 0) + 1
        if path in seen or kinds[kind] > 6:
            continue
        seen.add(path)
        text = site.get(path)
        page = Links(text)
        assert page.inline == [], path
        for load in page.loads:
            assert urlsplit(urljoin(site.address + path, load)).netloc == urlsplit(site.address).netloc
        assert "<script>alert" not in text and "<img src=x" not in text, path
        assert SECRET not in text, path
        for href in page.hrefs:
            target = urlsplit(urljoin(site.address + path, href))
            assert target.netloc == urlsplit(site.address).netloc, href
            wanted.append(target.path + (f"?{target.query}" if target.query else ""))
    reached = {re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "*", path).partition("?")[0] for path in map(unquote, seen)}
    assert reached >= {
        "/", "/tasks", "/tasks/*", "/steps/*", "/schedules", "/workers", "/workers/*", "/breakers", "/breakers/curl/ü", "/audit",
        "/lifecycles", "/lifecycles/tasker.task",
    }  # fmt: skip


def test_what_users_wrote_is_shown_as_text(site: Site) -> None:
    for path in (f"/steps/{site.keys['evil_step']}", f"/workers/{site.keys['worker']}", f"/tasks/{site.keys['evil']}"):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in site.get(path)


def test_limits_and_what_steps_wait_for_are_shown(site: Site) -> None:
    limits = site.get("/breakers").partition("<h2>Limits</h2>")[2]
    assert f"<td>tool</td><td>{escape(EVIL)}</td><td>all</td>" in limits
    assert '<td class="n">20</td>' in limits and "30 in 1 min" in limits
    waits = site.get("/").partition("<h2>Waiting for something else than a free worker</h2>")[2]
    assert f'<span class="tag">event</span> {escape(EVIL)}</td><td>shop</td><td class="n">1</td>' in waits


def test_headers_leave_nothing_open(site: Site) -> None:
    for path in ("/", "/sign-in", "/nonsense", "/static/dashboard.css", "/tasks/nonsense"):
        headers = site.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"


def test_what_is_not_there_is_said(site: Site) -> None:
    for path, status in (
        ("/nonsense", 404), ("/tasks/nonsense", 404), (f"/tasks/{uuid4()}", 404), (f"/steps/{uuid4()}", 404),
        (f"/workers/{uuid4()}", 404), ("/breakers/none", 404), ("/lifecycles/none", 404), ("/audit?view=none", 404),
        (f"/tasks/{site.keys['evil']}?view=none", 404), (f"/find?q={uuid4()}", 404), ("/tasks?before=nonsense", 400),
    ):  # fmt: skip
        answer = site.client.get(path)
        assert answer.status_code == status, path
        assert "<h1>" in answer.text and "Traceback" not in answer.text


def test_find_leads_from_a_key_to_its_page(site: Site) -> None:
    task = site.keys["evil"]
    correlation = site.engine.one("select correlation_id from tasker.tasks where task_uuid = %s", task)
    for key, path in (
        (task, f"/tasks/{task}"), (site.keys["evil_step"], f"/steps/{site.keys['evil_step']}"),
        (site.keys["worker"], f"/workers/{site.keys['worker']}"), (correlation, f"/audit?view=correlation&key={correlation}"),
        ("test", "/tasks?name=test"),
    ):  # fmt: skip
        answer = site.client.get("/find", params={"q": f" {key} "})
        assert str(answer.url) == site.address + path


def test_tasks_are_filtered_and_come_page_by_page(site: Site) -> None:
    def listed(text: str) -> set[str]:
        return set(re.findall(r'class="open" href="[^"]*/tasks/([0-9a-f-]{36})"', text))

    assert listed(site.get("/tasks", namespace="large")) == {
        str(key) for key in site.engine.values("select task_uuid from tasker.tasks where namespace = 'large'")
    }
    assert listed(site.get("/tasks", phase="blocked")) == {str(site.keys["evil"])}
    assert listed(site.get("/tasks", state="cancelled")) == {str(site.keys["ended"])}
    for _ in range(dashboard.PAGE + 5):
        site.engine.task([], namespace="many")
    found: set[str] = set()
    path: str | None = "/tasks?namespace=many"
    while path is not None:
        text = site.get(path)
        found |= listed(text)
        older = re.search(r'href="(\?[^"]+)" rel="next"', text)
        path = "/tasks" + older[1].replace("&amp;", "&") if older else None
    assert len(found) == dashboard.PAGE + 5


def test_a_large_task_is_drawn_in_groups_and_its_steps_are_paged(site: Site) -> None:
    text = site.get(f"/tasks/{site.keys['big']}")
    assert "300 steps, drawn as" in text
    assert text.count('class="node') <= 150
    assert site.get(f"/tasks/{site.keys['diamond']}").count('class="node') == len(DIAMOND)
    names: list[str] = []
    path: str | None = "?view=steps"
    while path is not None:
        text = site.get(f"/tasks/{site.keys['big']}{path}")
        names += re.findall(r'class="open" href="[^"]*">(\w+)<', text)
        onward = re.search(r'href="(\?[^"]+)" rel="next"', text)
        path = onward[1].replace("&amp;", "&") if onward else None
    assert names == [f"s{n}" for n in range(300)]


# -- who is let in


def test_nobody_without_a_token_sees_anything(site: Site) -> None:
    with httpx.Client(base_url=site.address) as stranger:
        for path in ("/", "/tasks", f"/tasks/{site.keys['evil']}", "/stream", "/find?q=x"):
            answer = stranger.get(path)
            assert (answer.status_code, urlsplit(answer.headers["location"]).path) == (303, "/sign-in")
        assert stranger.post("/actions", data={"command": "cancel_task"}).status_code == 303
        wrong = stranger.post("/sign-in", data={"token": "nonsense"})
        assert wrong.status_code == 401 and "set-cookie" not in wrong.headers
        right = stranger.post("/sign-in", data={"token": site.token})
        cookie = right.headers["set-cookie"].lower()
        assert right.status_code == 303 and "httponly" in cookie and "samesite=lax" in cookie
        assert stranger.get("/tasks").status_code == 200
        stranger.post("/sign-out")
        assert stranger.get("/tasks").status_code == 303
        elsewhere = stranger.post("/sign-in", data={"token": site.token}, headers={"Origin": "https://evil.example"})
        assert elsewhere.status_code == 403


def test_a_bound_login_sees_its_own_alone(
    database: str, conn: psycopg.Connection[Any], login: Any, serve: Serve
) -> None:
    engine = Engine(conn)
    name = str(conninfo_to_dict(login("tasker_operator"))["user"])
    theirs, ours = engine.task(chain("a"), namespace="rival"), engine.task(chain("a"), namespace="acme")
    conn.execute("select tasker.bind_login(%s, '{acme}', 'test', 'somebody')", [name])
    app, text = make(database, login=name)
    with httpx.Client(base_url=serve(app), follow_redirects=True) as client:
        home = client.get("/sign-in", params={"token": text}).text
        assert "acme" in home and "rival" not in home
        listed = client.get("/tasks").text
        assert str(ours) in listed and str(theirs) not in listed and "rival" not in listed
        assert client.get(f"/tasks/{theirs}").status_code == 404
        assert client.get(f"/tasks/{ours}").status_code == 200


def test_a_role_that_may_not_read_a_page_is_told(database: str, serve: Serve) -> None:
    app, text = make(database, role="tasker_monitor")
    with httpx.Client(base_url=serve(app), follow_redirects=True) as client:
        client.get("/sign-in", params={"token": text})
        assert client.get("/workers").status_code == 200
        answer = client.get("/tasks")
        assert answer.status_code == 403 and "permission denied" in answer.text


# -- actions


def test_without_actions_nothing_can_be_done(database: str, conn: psycopg.Connection[Any], serve: Serve) -> None:
    engine = Engine(conn)
    task = engine.task(chain("a"))
    app, text = make(database, actions=False)
    with httpx.Client(base_url=serve(app), follow_redirects=True) as client:
        client.get("/sign-in", params={"token": text})
        page = client.get(f"/tasks/{task}").text
        assert "<form" in page and 'name="reason"' not in page and "only shows" in page
        form = {"csrf": dashboard.csrf_of(text), "command": "cancel_task", "target": str(task), "reason": "x"}
        assert client.post("/actions", data=form).status_code == 403
    assert engine.state(task) == "steps_in_process"


def test_an_action_is_done_as_the_token_with_its_reason(site: Site) -> None:
    task = site.engine.task(chain("a"), namespace="acts")
    path = f"/tasks/{task}"
    form = {"command": "cancel_task", "target": str(task), "reason": "not needed", "request_id": "1"}
    answer = site.client.post("/actions", data={**form, "csrf": site.csrf(path)})
    assert answer.status_code == 200 and str(answer.url) == site.address + path
    assert site.engine.state(task) == "cancelled"
    row = site.engine.row(
        "select metadata ->> 'reason' as reason, metadata ->> 'requested_by' as requested_by, c.acting_role"
        " from tasker.task_transitions t join tasker.changes c"
        " on c.recorded_xid = t.recorded_xid and t.task_transition_uuid = any (c.transition_uuids)"
        " where t.task_uuid = %s and t.most_recent",
        task,
    )
    assert row == {"reason": "not needed", "requested_by": "ada", "acting_role": "tasker_operator"}
    # the same form sent twice is done once; a new one is refused, and that is kept
    assert site.client.post("/actions", data={**form, "csrf": site.csrf("/tasks/" + str(task))}).status_code == 200
    refused = site.client.post("/actions", data={**form, "request_id": "2", "csrf": site.csrf(path)})
    assert refused.status_code == 409 and "is not allowed" in refused.text
    assert site.engine.values("select code from tasker.rejected_transitions where entity_uuid = %s", task) == ["TK409"]
    resumed = site.client.post(
        "/actions", data={**form, "command": "resume_task", "request_id": "3", "csrf": site.csrf(path)}
    )
    assert resumed.status_code == 200 and str(resumed.url) != site.address + path and "/tasks/" in str(resumed.url)


def test_forms_from_elsewhere_do_nothing(site: Site) -> None:
    task = site.engine.task(chain("a"), namespace="acts")
    form = {"command": "cancel_task", "target": str(task), "reason": "x", "csrf": site.csrf(f"/tasks/{task}")}
    for data, headers, status in (
        ({**form, "csrf": ""}, {}, 403),
        ({**form, "csrf": "0" * 64}, {}, 403),
        (form, {"Origin": "https://evil.example"}, 403),
        (form, {"Origin": "null"}, 403),
        ({**form, "command": "drop_task"}, {}, 409),
        ({**form, "command": "nonsense"}, {}, 400),
        ({**form, "reason": "  "}, {}, 409),
        ({**form, "target": "nonsense"}, {}, 409),
        ({**form, "reason": "x" * 100_000}, {}, 413),
    ):
        assert site.client.post("/actions", data=data, headers=headers).status_code == status, data
    assert site.engine.state(task) == "steps_in_process"


@pytest.mark.parametrize("kind", ["step", "worker", "breaker"])
def test_steps_workers_and_breakers_are_acted_on(site: Site, kind: str) -> None:
    step = site.engine.steps(site.engine.task(chain("a"), namespace="acts"))["a"]
    worker = site.engine.one("select tasker.register_worker('w', p_vocabulary => 'supervision')")
    target, path, command, state = {
        "step": (step, f"/steps/{step}", "cancel_step", "cancelled"),
        "worker": (worker, f"/workers/{worker}", "start_worker", "RUNNING"),
        "breaker": ("curl/ü", "/breakers/curl/ü", "reset_breaker", "CLOSED"),
    }[kind]
    form = {"csrf": site.csrf(path), "command": command, "target": str(target), "reason": "why", "request_id": kind}
    answer = site.client.post("/actions", data=form)
    assert answer.status_code == 200 and state.replace("_", " ") in answer.text


# -- live


def test_a_page_is_told_when_its_task_has_moved(site: Site) -> None:
    task = site.engine.task(chain("a"), namespace="live")
    page = site.get(f"/tasks/{task}")
    stream = re.search(r'sse-connect="([^"]+)"', page)
    assert stream is not None
    with site.client.stream("GET", stream[1], timeout=30) as events:
        lines = events.iter_lines()
        assert events.headers["content-type"].startswith("text/event-stream")
        assert next(lines) == "retry: 3000"
        site.engine.command("cancel_task", task)
        assert next(line for line in lines if line.startswith("event")) == "event: changed"
    assert "sse-connect" not in site.get(f"/tasks/{task}")  # it has ended


# -- beside the API, and without the extra


def test_the_dashboard_stands_beside_the_api(database: str, conn: psycopg.Connection[Any], serve: Serve) -> None:
    task = Engine(conn).task(chain("a"))
    text, token = new_token("ada", "tasker_operator")
    beside = dashboard.create_app(Gate(database, [token], read_only=True))
    address = serve(api.create_app(Gate(database, [token]), with_dashboard=beside))
    with httpx.Client(base_url=address, follow_redirects=True) as client:
        home = client.get("/dashboard/sign-in", params={"token": text})
        assert home.status_code == 200 and str(home.url) == f"{address}/dashboard/"
        links = {urlsplit(urljoin(str(home.url), href)).path for href in Links(home.text).hrefs}
        assert "/dashboard/tasks" in links
        assert client.get(f"/dashboard/tasks/{task}").status_code == 200
        assert client.get("/dashboard/static/dashboard.css").status_code == 200
        assert client.get(f"/v1/tasks/{task}").status_code == 401  # its cookie is for the dashboard alone


@pytest.mark.parametrize("command", ["api", "dashboard"])
def test_without_the_extra_the_commands_say_what_is_missing(command: str) -> None:
    script = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from pgtasker.cli import main\n"
        f"sys.exit(main(['{command}']))"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "needs the extra web" in done.stderr and "pip install 'pgtasker[web]'" in done.stderr


def test_the_package_without_its_extras_loads_none_of_them() -> None:
    script = (
        "import sys\n"
        "for name in ('fastapi', 'starlette', 'jinja2', 'uvicorn', 'pydantic', 'cyclopts', 'rich'): sys.modules[name] = None\n"
        "import pgtasker, pgtasker.cli\n"
        "pgtasker.Client, pgtasker.Worker\n"
        "sys.exit(pgtasker.cli.main(['dashboard']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "hint: pip install 'pgtasker[cli]'")


def test_the_commands_serve(database: str) -> None:
    """From the shell to the page, with the address that is printed."""
    command = [sys.executable, "-m", "pgtasker.cli", "--dsn", database, "dashboard", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("the dashboard is at http://127.0.0.1:")
            page = httpx.get(line.split()[-1], follow_redirects=False)
            assert page.status_code == 303 and "set-cookie" in page.headers
        finally:
            process.terminate()
