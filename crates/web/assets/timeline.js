// Loads older entries when the user scrolls to them, and new entries when they are created.

import { fetchPart, make, showOffline, updateTimes } from "./page.js";
import {
  addChunk, chunkOf, dropEmpty, forgetChunk, joinDays, keepPlace, knownTurns, scroller, setAddress, showChunk,
  startWindow, turnsOf, updateOlder, updateTurn,
} from "./window.js";

const entries = () => document.querySelector(".entries");

export function startTimeline() {
  if (entries()) startWindow(isOlder ? location.href : firstAddress(), watchEnd);
  watchEnd();
  if (entries()) listen();
}

/** True if the page shows older entries, to which no new ones are added. */
const isOlder = new URLSearchParams(location.search).has("before");

let endWatcher;

/** Loads the next entries when the user comes near the end of the list. */
function watchEnd() {
  endWatcher?.disconnect();
  const link = document.querySelector("a[data-more]");
  if (!link) return;
  const watcher = new IntersectionObserver(async (seen) => {
    if (!seen.some((found) => found.isIntersecting)) return;
    watcher.disconnect();
    try {
      const address = link.href;
      const part = await fetchRows(address);
      // The list may have been replaced in the meantime.
      if (!link.isConnected) return;
      appendChunk(part, address);
      link.closest(".more").replaceWith(...part.querySelectorAll(".more, .end"));
      watchEnd();
    } catch {
      // The link still works, and scrolling again repeats the request.
      watcher.observe(link);
    }
  }, { root: scroller() === document.scrollingElement ? null : scroller(), rootMargin: "1200px" });
  watcher.observe(link);
  endWatcher = watcher;
}

async function fetchRows(address) {
  const url = new URL(address, location.href);
  url.searchParams.set("part", "rows");
  const part = await fetchPart(url);
  updateTimes(part);
  return part;
}

/** Adds entries at the end. */
function appendChunk(part, address) {
  const chunk = part.querySelector(".entries > .chunk");
  if (!chunk) return;
  // An entry that has meanwhile been shown at the top is not shown again.
  const known = knownTurns();
  for (const turn of turnsOf(chunk)) if (known.has(turn.dataset.id)) turn.remove();
  dropEmpty(chunk);
  joinDays(entries().lastElementChild, chunk);
  entries().append(chunk);
  addChunk(chunk, address);
}

/** Listens for changes. When the browser reconnects, it tells the server which event it received last. */
function listen() {
  const own = document.body.dataset.workspace;
  const stream = new EventSource("/api/v1/events");
  const refresh = debounce(inTurn(async () => {
    await refreshList();
    document.dispatchEvent(new Event("takeback:refreshed"));
  }), 150);
  // A short interruption is not reported.
  let offline;
  stream.addEventListener("open", () => {
    clearTimeout(offline);
    showOffline(false);
  });
  stream.addEventListener("error", () => {
    clearTimeout(offline);
    offline = setTimeout(() => stream.readyState !== EventSource.OPEN && showOffline(true), 2000);
  });
  stream.addEventListener("workspace", (event) => {
    const { workspace } = JSON.parse(event.data);
    if (!own || workspace === own) refresh();
  });
  stream.addEventListener("ledger", refresh);
  // The server no longer knows what this page missed.
  stream.addEventListener("gap", refresh);
  document.addEventListener("takeback:changed", refresh);
  addEventListener("pagehide", () => {
    clearTimeout(offline);
    stream.close();
  });
}

function debounce(run, wait) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(run, wait);
  };
}

/** Returns a function that runs a task. If it is called while the task is running, the task runs again afterwards. */
function inTurn(task) {
  let running = false;
  let isDue = false;
  return async () => {
    isDue = true;
    if (running) return;
    running = true;
    while (isDue) {
      isDue = false;
      await task();
    }
    running = false;
  };
}

/** The address of the newest entries that the filter allows. */
const firstAddress = () => `${entries().dataset.list}?${entries().dataset.query}`;

/** The maximum number of pages of new entries to insert. If there are more, the list is replaced. */
const MAX_PAGES = 10;

/** Fetches the newest entries, page by page, until one of them is already shown. */
async function fetchNewest() {
  const pages = [];
  let address = firstAddress();
  const known = knownTurns();
  while (address && pages.length < MAX_PAGES) {
    const part = await fetchRows(address);
    pages.push({ part, address });
    if (!known.size || [...part.querySelectorAll(".turn")].some((turn) => known.has(turn.dataset.id))) break;
    address = part.querySelector("a[data-more]")?.href;
  }
  return pages;
}

/** Fetches the newest entries and puts the new ones at the top, without moving the others. */
async function refreshList() {
  let pages;
  try {
    pages = isOlder ? [] : await fetchNewest();
  } catch {
    // The server has ended, or is busy. The next event brings the page up to date.
    return;
  }
  refreshHead();
  if (!pages.length) return;
  const known = knownTurns();
  const fetched = pages.flatMap(({ part }) => [...part.querySelectorAll(".turn")]);
  for (const turn of fetched) {
    const old = known.get(turn.dataset.id);
    if (old) updateTurn(old, turn);
  }
  const last = fetched.findLast((turn) => known.has(turn.dataset.id));
  if (last) mergePages(pages, fetched, known, last.dataset.id);
  else replaceList(pages);
  const { state } = pages[0].part.querySelector(".entries").dataset;
  // Rollbacks and names can change entries of any age.
  if (state !== entries().dataset.state) updateOlder(new Set(fetched.map((turn) => known.get(turn.dataset.id)).filter(Boolean).map(chunkOf)));
  entries().dataset.state = state;
}

/** Inserts new entries at the top, and removes those that no longer exist. */
function mergePages(pages, fetched, known, last) {
  const ids = new Set(fetched.map((turn) => turn.dataset.id));
  const fresh = fetched.filter((turn) => !known.has(turn.dataset.id));
  const order = [...known.keys()];
  const gone = order.slice(0, order.indexOf(last)).filter((id) => !ids.has(id));
  if (!fresh.length && !gone.length) return;
  // The entries that move to the new chunks, or are removed, must be in the page.
  for (const id of [...ids, ...gone]) if (known.has(id)) showChunk(chunkOf(known.get(id)));
  keepPlace(() => {
    gone.forEach((id) => known.get(id).remove());
    insertPages(pages, known);
  });
  if (fresh.length) announce(fresh.length);
}

function insertPages(pages, known) {
  const list = entries();
  const added = pages.map(({ part }) => part.querySelector(".entries > .chunk"));
  const losing = new Set();
  for (const turn of added.flatMap(turnsOf)) {
    const old = known.get(turn.dataset.id);
    if (!old) continue;
    losing.add(chunkOf(old));
    // Entries that are already shown keep what the user has unfolded.
    turn.replaceWith(old);
  }
  const next = pages.at(-1).part.querySelector("a[data-more]")?.href;
  for (const chunk of losing) {
    dropEmpty(chunk);
    if (next) setAddress(chunk, next);
  }
  for (const chunk of [...list.children]) {
    if (turnsOf(chunk).length) continue;
    forgetChunk(chunk);
    chunk.remove();
  }
  const following = list.firstElementChild;
  list.prepend(...added);
  added.forEach((chunk, index) => addChunk(chunk, pages[index].address));
  added.slice(1).forEach((chunk, index) => joinDays(added[index], chunk));
  if (following) joinDays(added.at(-1), following);
  markCurrent(added);
}

/** Marks the row whose turn is shown. */
function markCurrent(chunks) {
  for (const link of chunks.flatMap((chunk) => [...chunk.querySelectorAll("a[data-open]")])) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "true");
  }
}

/** Replaces all entries with the newest ones. The old and the new list have no entry in common. */
function replaceList(pages) {
  const list = entries();
  for (const chunk of [...list.children]) forgetChunk(chunk);
  list.parentElement.querySelectorAll(":scope > :is(.empty, .more, .end)").forEach((old) => old.remove());
  const { part } = pages[0];
  const chunk = part.querySelector(".entries > .chunk");
  list.before(...part.querySelectorAll(".empty"));
  list.after(...part.querySelectorAll(".more, .end"));
  list.replaceChildren(...(chunk ? [chunk] : []));
  if (chunk) {
    addChunk(chunk, pages[0].address);
    markCurrent([chunk]);
  }
  watchEnd();
}

/** Says that there are new entries above, if the user is reading further down. */
function announce(number) {
  const view = scroller();
  const known = document.querySelector(".new-entries");
  if (view.scrollTop < 80) return;
  const total = number + Number(known?.dataset.number ?? 0);
  known?.remove();
  const button = make("button", { type: "button", class: "small", text: `${total} new ↑` });
  const box = make("div", { class: "new-entries", "data-number": total, role: "status" }, button);
  button.addEventListener("click", () => {
    view.scrollTo({ top: 0 });
    box.remove();
  });
  // Scrolling does not bubble, so it is caught in the capture phase.
  document.addEventListener("scroll", function look() {
    if (box.isConnected && view.scrollTop >= 80) return;
    box.remove();
    document.removeEventListener("scroll", look, true);
  }, true);
  entries().before(box);
}

/** Updates the last action in the head. */
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
