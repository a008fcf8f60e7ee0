// Theme, keys. Everything else is links, forms and what htmx attributes say; the pages work without any of this.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const theme = stored();
  if (theme === "light" || theme === "dark") root.dataset.theme = theme; // before anything is painted

  const isTyping = (target) => target.closest("input, select, textarea, [contenteditable]") !== null;
  const rows = () => [...document.querySelectorAll(".rows .open")];
  const pages = { o: 0, t: 1, s: 2, w: 3, b: 4, a: 5, l: 6 };
  let waiting = 0;

  const showKeys = () => document.getElementById("keys").showModal();

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-button]")) {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* it holds for this page */ }
    } else if (event.target.closest("[data-keys-button]")) {
      showKeys();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const links = rows();
    const at = links.indexOf(document.activeElement);
    if (Date.now() < waiting && event.key in pages) {
      const link = document.querySelectorAll(".top nav a")[pages[event.key]];
      if (link) location.assign(link.href);
    } else if (event.key === "g") {
      waiting = Date.now() + 1500;
      return;
    } else if (event.key === "/") {
      document.getElementById("q")?.focus();
    } else if (event.key === "?") {
      showKeys();
    } else if (event.key === "j" || event.key === "k") {
      const next = links[Math.min(Math.max(at + (event.key === "j" ? 1 : -1), 0), links.length - 1)];
      next?.focus();
    } else {
      return;
    }
    waiting = 0;
    event.preventDefault();
  });

  // A part that is replaced while somebody types a reason or reads an opened detail would take that away.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const live = document.getElementById("live");
    const busy = live && (live.querySelector("details[open] pre:hover") || live.contains(document.activeElement) && isTyping(document.activeElement));
    if (busy || [...(live?.querySelectorAll(".act input[name=reason]") ?? [])].some((input) => input.value !== "")) event.detail.shouldSwap = false;
  });
  // Where somebody has scrolled to in a graph, and what was open, stays so.
  let kept = null;
  document.addEventListener("htmx:beforeSwap", () => {
    const sheet = document.querySelector(".sheet");
    kept = {
      left: sheet?.scrollLeft, top: sheet?.scrollTop,
      open: [...document.querySelectorAll("#live details")].map((details) => details.open),
      focus: document.activeElement?.getAttribute?.("href"),
    };
  });
  document.addEventListener("htmx:afterSwap", () => {
    const sheet = document.querySelector(".sheet");
    if (!kept) return;
    if (sheet) { sheet.scrollLeft = kept.left ?? 0; sheet.scrollTop = kept.top ?? 0; }
    document.querySelectorAll("#live details").forEach((details, index) => { if (kept.open[index]) details.open = true; });
    if (kept.focus) document.querySelector(`#live a[href="${CSS.escape(kept.focus)}"]`)?.focus({ preventScroll: true });
  });
})();
