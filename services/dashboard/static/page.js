// What every page does: theme, actions, copying, code colours, and staying fresh.
// A page refreshes by reading itself again and putting in those parts ([data-part], by id) that changed.
"use strict";
const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const csrf = document.querySelector('meta[name="csrf"]')?.content;

// Theme
const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
$("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("tilefarm-theme", root.dataset.theme);
  document.dispatchEvent(new Event("themed"));
});

// Words for a moment
let toastTimer;
function toast(text) {
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { $("toast").hidden = true; }, 6000);
}

// Actions: POST, JSON, with the session's CSRF token
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (csrf) headers["X-CSRF-Token"] = csrf;
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const said = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.detail || `The service answered ${answer.status}.`);
  return said;
}
// While an action is asked for, and until the page that it leads to is there, no refresh may load this one again.
let acting = false;
async function act(element, body) {
  if (element.dataset.confirm && !confirm(element.dataset.confirm)) return;
  const buttons = element.matches("form") ? element.querySelectorAll("button") : [element];
  buttons.forEach((button) => { button.disabled = true; });
  acting = true;
  try {
    const said = await post(element.dataset.post, body);
    const goto = said.goto || element.dataset.goto;
    if (goto) { location.assign(goto); return; }
    acting = false;
    document.activeElement?.blur();
    await refresh();
  } catch (error) {
    acting = false;
    toast(error instanceof TypeError ? "The service does not answer; try again." : error.message);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.post) act(button, JSON.parse(button.dataset.body || "{}"));
  else if (button.dataset.copy) copy($(button.dataset.copy).textContent, button);
  else if ("guestLink" in button.dataset) {
    try { copy((await post("/session/guest-link", {})).url, button); } catch (error) { toast(error.message); }
  }
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-get]")) {
    event.preventDefault();
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    location.assign(`${form.getAttribute("action")}?${asked}`);
  }
  if (!form.dataset.post) return;
  event.preventDefault();
  const fields = [...form.elements].filter((field) => field.name);
  act(form, Object.fromEntries(fields.map((f) => [f.name, f.type === "number" ? f.valueAsNumber : f.value])));
});
async function copy(text, button) {
  try { await navigator.clipboard.writeText(text); } catch { toast(text); return; }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1500);
}

// Opening a session, on /open
if ($("open-form")) {
  const next = new URL(new URLSearchParams(location.search).get("next") || "/", location.origin);
  const open = async (body) => {
    try {
      await post("/session", body);
      location.replace(next.origin === location.origin ? next.pathname + next.search : "/");
    } catch (error) { $("open-said").textContent = `${error.message}. Open it with a token:`; }
  };
  const link = new URLSearchParams(location.hash.slice(1)).get("link");
  if (link) { history.replaceState(null, "", location.pathname + location.search); open({ link }); }
  $("open-form").addEventListener("submit", (event) => {
    event.preventDefault();
    open({ token: $("token").value.trim() });
  });
}

// Code colours: Python, line by line, by text nodes alone
const TOKEN = /(#.*)|("""[\s\S]*?"""|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\b(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b|\b(def|class|return|import|from|as|with|for|in|if|elif|else|not|and|or|is|None|True|False|while|lambda|assert)\b/g;
function highlight(pre) {
  const text = pre.textContent;
  const parts = document.createDocumentFragment();
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.append(text.slice(end, found.index));
    const span = document.createElement("span");
    span.className = found[1] ? "c" : found[2] ? "str" : found[3] ? "n" : "k";
    span.textContent = found[0];
    parts.append(span);
    end = found.index + found[0].length;
  }
  parts.append(text.slice(end));
  pre.replaceChildren(parts);
}
document.querySelectorAll("[data-highlight]").forEach(highlight);

// Times in the reader's own zone
const BRIEF = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
function localise(within) {
  within.querySelectorAll("time[datetime]").forEach((time) => {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) time.textContent = at.toLocaleString(undefined, "brief" in time.dataset ? BRIEF : { dateStyle: "medium", timeStyle: "medium" });
  });
}
localise(document);

// Staying fresh
const live = document.body.dataset.live;
let fresh = Date.now();
let lost = false;
let ended = live === "ended";
let busy = false;
let again = false;
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected && new URL(answer.url).pathname === "/open") { location.assign(answer.url); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = [...document.querySelectorAll("[data-part]")];
    if (!now.every((part) => page.getElementById(part.id)) || page.querySelectorAll("[data-part]").length !== now.length) {
      if (!acting) location.reload();
      return;
    }
    for (const part of now) swap(part, page.getElementById(part.id));
    ended = page.body.dataset.live === "ended";
    fresh = Date.now();
    lost = false;
    document.dispatchEvent(new Event("refreshed"));
  } catch { lost = true; } finally {
    busy = false;
    tell();
  }
  if (again) { again = false; setTimeout(refresh, 300); }
}
function swap(old, young) {
  localise(young);
  if (old.innerHTML === young.innerHTML || old.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), select")) return;
  const left = old.scrollLeft;
  const ticked = [...old.querySelectorAll("input:checked")].map((input) => input.value);
  const held = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  old.replaceChildren(...young.childNodes);
  old.scrollLeft = left;
  for (const input of old.querySelectorAll('input[type="checkbox"]')) input.checked = ticked.includes(input.value);
  if (held) [...old.querySelectorAll("a")].find((a) => a.getAttribute("href") === held)?.focus();
}
function tell() {
  if (!live) return;
  const secs = Math.max(0, Math.round((Date.now() - fresh) / 1000));
  $("pulse").hidden = false;
  $("pulse").className = lost ? "pulse lost" : ended ? "pulse ended" : "pulse";
  const text = lost ? `The service does not answer; last seen ${secs} s ago, trying again …` : ended ? "ended" : `updated ${secs} s ago`;
  if ($("pulse-text").textContent !== text) $("pulse-text").textContent = text;
}
function poll(every) {
  setInterval(() => { if (!document.hidden || lost) refresh(); }, every);
}
function follow() {
  const events = new EventSource(document.body.dataset.events);
  let due = null;
  const soon = () => { due ??= setTimeout(() => { due = null; refresh(); }, 250); };
  events.addEventListener("job", () => { fresh = Date.now(); soon(); });
  events.addEventListener("end", () => { events.close(); refresh(); });
  events.addEventListener("open", () => { if (lost) soon(); });
  events.addEventListener("error", () => {
    events.close();
    if (ended) return;
    lost = true;
    tell();
    setTimeout(async () => { await refresh(); if (!ended) follow(); }, 1000);
  });
}
if (live === "poll") poll(1500);
if (live === "events") { follow(); poll(10000); }
if (live) { setInterval(tell, 1000); tell(); }
