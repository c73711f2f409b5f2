// Opens turns beside the timeline, loads folded parts, and keeps the page up to date.

import { fetchPart, showProblem, updateTimes } from "./page.js";
import { startKeys } from "./keys.js";
import { startLabels } from "./labels.js";
import { keepRestore, planAgain, startRestore, takeBack } from "./restore.js";
import { startTimeline } from "./timeline.js";

const WIDE = window.matchMedia("(min-width: 1400px)");
const detail = () => document.querySelector("[data-pane=detail]");

/** Returns true if diffs are shown side by side. Unless the user has chosen a view, the width of the window decides. */
function preferredSplit() {
  const chosen = localStorage.getItem("diff-view");
  return chosen ? chosen === "split" : WIDE.matches;
}

/** Adds the preferred view to a diff's address that has none. */
function withView(address) {
  const url = new URL(address, location.href);
  if (url.searchParams.get("tab") === "diff" && !url.searchParams.has("split")) {
    url.searchParams.set("split", preferredSplit() ? "1" : "0");
  }
  return url;
}

let opening = null;

/** Shows a turn, or another part of it, without loading the list again. */
export async function open(address, { push = true, focus = false } = {}) {
  const pane = detail();
  const url = withView(address);
  if (!pane) {
    location.assign(url);
    return;
  }
  const mine = (opening = Symbol("opening"));
  const part = new URL(url);
  part.searchParams.set("part", "detail");
  let content;
  try {
    content = await fetchPart(part);
  } catch (error) {
    showProblem(error);
    return;
  }
  // The user may have opened something else in the meantime.
  if (opening !== mine) return;
  const shown = pane.querySelector(".detail");
  const isSame = shown && content.querySelector(".detail")?.dataset.checkpoint === shown.dataset.checkpoint;
  if (isSame) replaceParts(shown, content);
  else {
    pane.replaceChildren(content);
    pane.scrollTop = 0;
  }
  document.querySelector(".panes").className = "panes show-detail";
  if (push) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  const title = pane.querySelector(".turn-head h1")?.textContent.trim() ?? "takeback";
  document.title = `${title.slice(0, 60)} · takeback`;
  markCurrent(url);
  updateTimes(pane);
  if (isSame) keepRestore();
  else startRestore(pane);
  showTab();
  if (focus) pane.focus({ preventScroll: true });
}

/** Shows another part of the same turn. The foot is kept, with its plan and the user's selection. */
function replaceParts(shown, content) {
  const hadFocus = shown.querySelector(".tabs").contains(document.activeElement);
  for (const part of [".turn-head", ".tabs", ".tab"]) {
    shown.querySelector(part).replaceWith(content.querySelector(part));
  }
  if (hadFocus) shown.querySelector(".tabs a[aria-current]")?.focus();
}

/** Scrolls the current tab into view, in a window that is too narrow for all tabs. */
function showTab() {
  document.querySelector(".tabs a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Updates the head and the plan of the turn that is shown, after its workspace has changed. */
async function refreshDetail() {
  const shown = detail()?.querySelector(".detail");
  if (!shown) return;
  planAgain();
  try {
    const content = await fetchPart(`${location.pathname}?tab=effects&part=detail`);
    const head = shown.querySelector(".turn-head");
    if (!shown.isConnected || head.contains(document.activeElement)) return;
    const fresh = content.querySelector(".turn-head");
    updateTimes(fresh);
    // Parts that the user has unfolded stay unfolded.
    if (!head.querySelector("details[open]")) head.replaceWith(fresh);
  } catch {
    // The next event brings the page up to date.
  }
}

/** Marks the row whose turn is shown. */
function markCurrent(url) {
  for (const link of document.querySelectorAll("a[data-open]")) {
    const isIt = new URL(link.href).pathname === url.pathname;
    if (isIt) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Shows the overview again after going back, without moving the list. */
async function showOverview() {
  const mine = (opening = Symbol("opening"));
  try {
    const page = await fetchPart(location.href);
    if (opening !== mine) return;
    const pane = detail();
    pane.replaceChildren(...page.querySelector("[data-pane=detail]").childNodes);
    updateTimes(pane);
    startRestore(pane);
    document.title = page.querySelector("title").textContent;
    markCurrent(new URL(location.href));
  } catch (error) {
    showProblem(error);
  }
}

/** Goes back to the list, in a window that shows only one pane. */
export function close() {
  const list = document.querySelector(".entries")?.dataset.list;
  if (!list) return;
  document.querySelector(".panes").className = "panes show-list";
  history.pushState(null, "", list);
  document.querySelector("a.row[aria-current]")?.focus();
}

document.addEventListener("click", (event) => {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  if (!isPlain || event.defaultPrevented) return;
  const target = event.target;
  const view = target.closest("[data-view]");
  if (view) localStorage.setItem("diff-view", view.dataset.view);
  const link = target.closest("a[data-open], a[data-tab]");
  if (link && detail()) {
    event.preventDefault();
    open(link.href, { focus: link.matches("[data-open]") && !matchMedia("(min-width: 1100px)").matches });
    return;
  }
  if (target.closest("a[data-close]") && document.querySelector(".entries")) {
    event.preventDefault();
    close();
    return;
  }
  const reverse = target.closest("button[data-reverse]");
  if (reverse) takeBack(reverse.dataset.workspace, reverse.dataset.reverse, reverse);
  const whole = target.closest("button[data-whole]");
  if (whole) {
    event.preventDefault();
    loadFile(whole.closest(".diff-file"), whole.dataset.whole);
    whole.remove();
  }
  // A menu closes when the user clicks elsewhere.
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(target)) menu.open = false;
  }
});

/** Loads the content of a file in a diff. */
async function loadFile(file, address) {
  file.open = true;
  try {
    file.querySelector(".diff-body").replaceChildren(await fetchPart(address));
  } catch (error) {
    showProblem(error);
  }
}

// `toggle` does not bubble, so it is caught in the capture phase.
document.addEventListener("toggle", async (event) => {
  const details = event.target;
  if (!details.open) return;
  const { source, card } = details.dataset;
  if (source) {
    delete details.dataset.source;
    loadFile(details, source);
  }
  if (card) {
    delete details.dataset.card;
    try {
      details.querySelector(".card-files").replaceChildren(await fetchPart(card));
    } catch (error) {
      showProblem(error);
    }
  }
}, true);

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-submit]")?.form;
  if (!form) return;
  if (form.dataset.tab === undefined) {
    form.requestSubmit();
  } else {
    open(`${form.action}?${new URLSearchParams(new FormData(form))}`);
  }
});

// Leaves empty fields out of the address.
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".filter")) return;
  for (const field of event.target.elements) {
    if (field.name && !field.value) field.disabled = true;
  }
});

window.addEventListener("popstate", () => {
  if (/^\/w\/[^/]+\/c\//.test(location.pathname)) open(location.href, { push: false });
  else if (document.querySelector(".entries")?.dataset.list === location.pathname) {
    document.querySelector(".panes").className = "panes show-list";
    showOverview();
  } else location.reload();
});

// The page shows the name and the pin of a checkpoint, so it is loaded again.
document.addEventListener("takeback:changed", (event) => {
  if (event.detail?.leaves) location.assign(document.querySelector(".entries")?.dataset.list ?? "/");
  else if (detail()?.querySelector(".detail")) open(location.href, { push: false }).then(planAgain);
});
document.addEventListener("takeback:refreshed", refreshDetail);

updateTimes();
setInterval(updateTimes, 30000);
startRestore(document);
showTab();
startTimeline();
// Only conversations need this script.
if (document.querySelector("[data-chat]")) import("./chat.js").then(({ startChat }) => startChat());
startLabels();
startKeys({ open, close });
document.querySelector(".pane-list .row[aria-current]")?.scrollIntoView({ block: "center" });
const first = withView(location.href);
if (detail() && first.href !== location.href) open(first, { push: false });
