"""The dashboard in a real browser: it keeps itself up to date, is used by keyboard, and can be read by everybody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.conftest import TEMPLATE, TestServer, fresh_database
from tests.kernel.engine import DIAMOND, Engine, chain
from tests.web.conftest import serving
from tests.web.test_dashboard import EVIL, fill, make

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")


class Site:
    def __init__(self, address: str, token: str, engine: Engine, keys: dict[str, Any]) -> None:
        self.address, self.token, self.engine, self.keys = address, token, engine, keys

    def visit(self, page: Page, path: str = "/") -> Page:
        """Open a page, signed in."""
        page.goto(f"{self.address}/sign-in?token={self.token}")
        if path != "/":
            page.goto(self.address + path)
        return page


@pytest.fixture(scope="module")
def site(server: TestServer) -> Iterator[Site]:
    with fresh_database(server, TEMPLATE) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        engine = Engine(conn)
        keys = fill(engine)
        app, text = make(dsn)
        with serving(app) as address:
            yield Site(address, text, engine, keys)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # the sandbox wants a user that is not root
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile; a page of it that says anything on its console fails the test."""
    made = browser.new_context(viewport={"width": 1280, "height": 800})
    made.set_default_timeout(15_000)
    said: list[str] = []
    made.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    made.on("weberror", lambda error: said.append(str(error.error)))
    yield made
    made.close()
    assert said == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def paths(site: Site) -> dict[str, str]:
    keys = site.keys
    return {
        "overview": "/", "tasks": "/tasks", "task": f"/tasks/{keys['diamond']}", "blocked": f"/tasks/{keys['evil']}",
        "large": f"/tasks/{keys['big']}", "steps": f"/tasks/{keys['big']}?view=steps",
        "timeline": f"/tasks/{keys['diamond']}?view=timeline", "log": f"/tasks/{keys['evil']}?view=log",
        "audit of a task": f"/tasks/{keys['evil']}?view=audit", "data": f"/tasks/{keys['secretive']}?view=data",
        "step": f"/steps/{keys['evil_step']}", "workers": "/workers", "worker": f"/workers/{keys['worker']}",
        "schedules": "/schedules", "breakers": "/breakers", "breaker": "/breakers/curl/ü", "audit": "/audit", "lifecycle": "/lifecycles/tasker.task",
    }  # fmt: skip


# -- alive


def test_the_graph_follows_the_task_without_a_reload(site: Site, page: Page) -> None:
    task = site.engine.task(DIAMOND, namespace="live")
    site.visit(page, f"/tasks/{task}")
    page.evaluate("window.stayed = true")
    node = page.locator("svg.graph a", has_text="top").locator("g.node")
    expect(node).to_have_class("node phase-queued")
    worker = site.engine.worker()
    (claimed,) = site.engine.claim(worker, namespace="live")
    expect(node).to_have_class("node phase-running")
    site.engine.complete(claimed, {"n": 1})
    site.engine.orchestrate()
    expect(node).to_have_class("node phase-succeeded")
    expect(page.locator(".state .chip")).to_have_text("steps in process")
    site.engine.command("cancel_task", task)
    expect(page.locator(".state .chip")).to_have_text("cancelled")
    assert page.evaluate("window.stayed") is True


def test_what_somebody_types_is_not_taken_away(site: Site, page: Page) -> None:
    task = site.engine.task(DIAMOND, namespace="typed")
    site.visit(page, f"/tasks/{task}")
    page.get_by_label("Why").fill("half a rea")
    with page.expect_response(lambda response: "hx-request" in response.request.headers):  # it asks for itself again
        site.engine.claim(site.engine.worker(), namespace="typed")
    assert page.get_by_label("Why").input_value() == "half a rea"


def test_somebody_resolves_what_is_blocked(site: Site, page: Page) -> None:
    task = site.engine.task(chain("a", "b", max_attempts=1), namespace="blocked")
    (claimed,) = site.engine.claim(site.engine.worker(), namespace="blocked")
    site.engine.fail(claimed, "permanent")
    site.engine.orchestrate()
    site.visit(page, "/tasks?namespace=blocked")
    page.get_by_role("link", name="test").click()
    expect(page.locator(".explain")).to_contain_text("The task is blocked")
    page.locator("svg.graph a", has_text="error").click()
    page.get_by_role("button", name="Resolve").click()
    assert page.url.endswith(f"/steps/{claimed['workflow_step_uuid']}")  # the browser asks for the reason first
    page.get_by_label("Why").fill("done by hand")
    page.get_by_role("button", name="Resolve").click()
    expect(page.locator(".state .chip")).to_have_text("resolved manually")
    expect(page.get_by_role("cell", name="done by hand")).to_be_visible()
    assert site.engine.one("select phase from tasker.task_overview where task_uuid = %s", task) == "running"


def test_markup_of_users_is_text(site: Site, page: Page) -> None:
    """Nothing of it ran: an alert would have been heard, an image that is missing said so on the console."""
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    site.visit(page, f"/steps/{site.keys['evil_step']}")
    expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)


# -- by keyboard


def test_rows_are_walked_and_opened_by_keys(site: Site, page: Page) -> None:
    site.visit(page, "/tasks?namespace=shop")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator(".rows .open").nth(1)
    expect(second).to_be_focused()
    target = second.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{target}" if target and target.startswith("/") else str(target))
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.wait_for_url("**/workers")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(str(site.keys["diamond"]))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{site.keys['diamond']}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def test_the_first_tab_skips_to_the_content(site: Site, page: Page) -> None:
    site.visit(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


# -- readable


def test_the_theme_that_was_chosen_stays(site: Site, page: Page) -> None:
    site.visit(page)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(paper)
    assert dark != light
    page.goto(f"{site.address}/tasks")
    assert page.evaluate(paper) == dark


def test_without_scripts_the_pages_are_the_same(site: Site, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    site.visit(page, f"/tasks/{site.keys['diamond']}")
    expect(page.locator("svg.graph g.node")).to_have_count(len(DIAMOND))
    page.get_by_role("link", name="Timeline", exact=True).click()
    expect(page.locator(".lane-name").filter(has_text="bottom")).to_be_visible()
    context.close()


# Text that is too faint on what is behind it; colours are read back as the browser paints them.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = read(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = new Set();
  for (const element of document.querySelectorAll("body *:not(svg *):not(option)")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !element.checkVisibility() || element.closest(".hidden, .skip, dialog:not([open])")) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(read(style.color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${element.className} "${element.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return [...found];
}"""

NAMELESS = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, [role=img], [role=group]")]
  .filter((e) => e.checkVisibility() && !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
  .map((e) => e.outerHTML.slice(0, 120))"""


def test_every_page_can_be_read_and_fits(site: Site, browser: Browser) -> None:
    """Contrast as WCAG AA asks, light and dark; a name for everything that can be used; no page wider than a phone."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    site.visit(page)
    for name, path in paths(site).items():
        page.goto(site.address + path)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(FAINT) == [], (name, scheme)
        assert page.evaluate(NAMELESS) == [], name
        assert page.locator("h1").count() == 1, name
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        assert page.title() != "pgtasker", name
    context.close()
