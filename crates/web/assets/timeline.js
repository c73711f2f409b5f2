// Loads older entries when they come into view, and new ones when they appear.

import { fetchPart, make, updateTimes } from "./page.js";

const scroller = () =>
  matchMedia("(min-width: 1100px)").matches
    ? document.querySelector("[data-pane=list]")
    : document.scrollingElement;

export function startTimeline() {
  watchEnd();
  if (document.querySelector(".entries")) listen();
}

/** Loads the next entries when the user comes near the end of the list. */
function watchEnd() {
  const link = document.querySelector("a[data-more]");
  if (!link) return;
  const watcher = new IntersectionObserver(async ([seen]) => {
    if (!seen.isIntersecting) return;
    watcher.disconnect();
    const more = link.closest(".more");
    try {
      const address = new URL(link.href);
      address.searchParams.set("part", "rows");
      const part = await fetchPart(address);
      updateTimes(part);
      appendDays(part);
      more.replaceWith(...part.querySelectorAll(".more, .end"));
      watchEnd();
    } catch {
      // The link still works, and so does scrolling again.
      watcher.observe(link);
    }
  }, { rootMargin: "1200px" });
  watcher.observe(link);
}

/** Adds days at the end. A day that continues is joined with the one before. */
function appendDays(part) {
  const entries = document.querySelector(".entries");
  for (const day of part.querySelectorAll(".entries > .day")) {
    const last = entries.lastElementChild;
    if (last?.dataset.day === day.dataset.day) last.append(...day.querySelectorAll(":scope > .run"));
    else entries.append(day);
  }
}

/** Listens for changes. The browser reconnects by itself, and tells the server where it was. */
function listen() {
  const own = document.body.dataset.workspace;
  const stream = new EventSource("/api/v1/events");
  const refresh = debounce(refreshList, 150);
  stream.addEventListener("workspace", (event) => {
    const { workspace } = JSON.parse(event.data);
    if (!own || workspace === own) refresh();
  });
  stream.addEventListener("ledger", refresh);
  // The server no longer knows what this page missed.
  stream.addEventListener("gap", refresh);
  document.addEventListener("takeback:changed", refresh);
  addEventListener("pagehide", () => stream.close());
}

function debounce(run, wait) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(run, wait);
  };
}

/** Fetches the newest entries and puts the new ones at the top, without moving the others. */
async function refreshList() {
  const entries = document.querySelector(".entries");
  const address = new URL(entries.dataset.list, location.href);
  address.search = entries.dataset.query;
  address.searchParams.set("part", "rows");
  let part;
  try {
    part = await fetchPart(address);
  } catch {
    // The server has ended, or is busy. The next event brings the page up to date.
    return;
  }
  updateTimes(part);
  const known = new Map([...entries.querySelectorAll(".turn")].map((turn) => [turn.dataset.id, turn]));
  const fresh = [...part.querySelectorAll(".turn")].filter((turn) => !known.has(turn.dataset.id));
  updateKnown(part, known);
  refreshHead();
  if (!fresh.length) return;
  if (!known.size) {
    document.querySelector(".pane-list > .empty")?.remove();
    entries.replaceChildren(...part.querySelector(".entries").children);
    return;
  }
  insertFresh(part, entries, known);
  announce(fresh.length);
}

/** Brings rows that are already shown up to date: what is struck through, and where we are now. */
function updateKnown(part, known) {
  for (const turn of part.querySelectorAll(".turn")) {
    const old = known.get(turn.dataset.id);
    if (!old) continue;
    const row = old.querySelector(".row");
    const now = turn.querySelector(".row");
    old.className = turn.className;
    row.replaceChildren(...now.childNodes);
    const steps = turn.querySelector(".steps");
    const oldSteps = old.querySelector(".steps");
    if (steps && !oldSteps) old.append(steps);
    else if (steps && steps.querySelectorAll("li").length !== oldSteps.querySelectorAll("ol > li").length) {
      steps.open = oldSteps.open;
      oldSteps.replaceWith(steps);
    }
  }
}

/** Replaces the entries of the first page by the new first page, and keeps the place. */
function insertFresh(part, entries, known) {
  const view = scroller();
  const before = view.scrollHeight;
  const place = view.scrollTop;
  const current = document.querySelector("a.row[aria-current]")?.pathname;
  const first = part.querySelector(".entries");
  const ids = new Set([...first.querySelectorAll(".turn")].map((turn) => turn.dataset.id));
  for (const turn of first.querySelectorAll(".turn")) {
    const old = known.get(turn.dataset.id);
    if (old) turn.replaceWith(old);
  }
  // What is older than the first page stays where it is.
  for (const turn of [...entries.querySelectorAll(".turn")]) {
    if (ids.has(turn.dataset.id)) turn.remove();
  }
  for (const empty of entries.querySelectorAll(".run:not(:has(.turn)), .day:not(:has(.turn))")) empty.remove();
  const rest = [...entries.children];
  entries.replaceChildren(...first.children);
  for (const day of rest) {
    const last = entries.lastElementChild;
    if (last?.dataset.day === day.dataset.day) last.append(...day.querySelectorAll(":scope > .run"));
    else entries.append(day);
  }
  if (current) document.querySelector(`a.row[href="${CSS.escape(current)}"]`)?.setAttribute("aria-current", "true");
  if (place > 0) view.scrollTop = place + (view.scrollHeight - before);
}

/** Says that there are new entries above, if the user is reading further down. */
function announce(number) {
  const view = scroller();
  if (view.scrollTop < 80) return;
  document.querySelector(".new-entries")?.remove();
  const button = make("button", { type: "button", class: "small", text: `${number} new ↑` });
  const box = make("div", { class: "new-entries" }, button);
  button.addEventListener("click", () => {
    view.scrollTo({ top: 0 });
    box.remove();
  });
  document.querySelector(".entries").before(box);
}

/** Brings the last action in the head up to date. */
async function refreshHead() {
  const id = document.body.dataset.workspace;
  if (!id) return;
  try {
    const page = await fetchPart(`/w/${id}`);
    const last = page.querySelector("#last-action");
    if (last) {
      updateTimes(last);
      document.getElementById("last-action").replaceWith(last);
    }
    const overview = document.querySelector(".overview");
    const fresh = page.querySelector(".overview");
    if (overview && fresh) {
      updateTimes(fresh);
      overview.replaceWith(fresh);
    }
  } catch {
    // The next event brings the page up to date.
  }
}
