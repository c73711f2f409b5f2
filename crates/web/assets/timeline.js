// Loads older entries when they come into view, and new ones when they appear.

import { fetchPart, make, showOffline, updateTimes } from "./page.js";

const scroller = () =>
  matchMedia("(min-width: 1100px)").matches
    ? document.querySelector("[data-pane=list]")
    : document.scrollingElement;

export function startTimeline() {
  const first = document.querySelector(".entries > .chunk");
  if (first) watchChunk(first);
  watchEnd();
  if (document.querySelector(".entries")) listen();
}

const isPane = () => matchMedia("(min-width: 1100px)").matches;
const root = () => (isPane() ? document.querySelector("[data-pane=list]") : null);

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
      appendChunk(part);
      more.replaceWith(...part.querySelectorAll(".more, .end"));
      watchEnd();
    } catch {
      // The link still works, and scrolling again repeats the request.
      watcher.observe(link);
    }
  }, { root: root(), rootMargin: "1200px" });
  watcher.observe(link);
}

/** Adds entries at the end. */
function appendChunk(part) {
  const entries = document.querySelector(".entries");
  const chunk = part.querySelector(".entries > .chunk");
  if (!chunk) return;
  joinDays(entries.lastElementChild, chunk);
  entries.append(chunk);
  watchChunk(chunk);
}

/** Leaves out the heading of a day that began in the chunk before. */
function joinDays(before, chunk) {
  const days = (content(before) ?? before)?.querySelectorAll?.(".day") ?? [];
  const last = days[days.length - 1]?.dataset.day;
  const first = chunk.querySelector(".day");
  first?.classList.toggle("continued", first.dataset.day === last);
}

// The entries of chunks that are far from the visible part. Only entries near the view are in the
// page, so that it stays fast with thousands of them.
const hidden = new Map();
const content = (chunk) => hidden.get(chunk);

function watchChunk(chunk) {
  const watcher = new IntersectionObserver(([seen]) => {
    if (!chunk.isConnected) watcher.disconnect();
    else if (seen.isIntersecting) showChunk(chunk);
    else hideChunk(chunk);
  }, { root: root(), rootMargin: "2000px" });
  watcher.observe(chunk);
}

function hideChunk(chunk) {
  if (hidden.has(chunk) || chunk.contains(document.activeElement) || !chunk.offsetHeight) return;
  chunk.style.height = `${chunk.offsetHeight}px`;
  const fragment = document.createDocumentFragment();
  fragment.append(...chunk.childNodes);
  hidden.set(chunk, fragment);
}

function showChunk(chunk) {
  const fragment = hidden.get(chunk);
  if (!fragment) return;
  hidden.delete(chunk);
  updateTimes(fragment);
  for (const link of fragment.querySelectorAll("a[data-open]")) {
    if (link.pathname === location.pathname) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  chunk.append(fragment);
  chunk.style.height = "";
}

/** Listens for changes. When the browser reconnects, it tells the server the last event. */
function listen() {
  const own = document.body.dataset.workspace;
  const stream = new EventSource("/api/v1/events");
  const refresh = debounce(async () => {
    await refreshList();
    document.dispatchEvent(new Event("takeback:refreshed"));
  }, 150);
  // A short interruption shows nothing.
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
  // New entries belong in the first chunks.
  [...entries.children].slice(0, 2).forEach(showChunk);
  const known = new Map([...entries.querySelectorAll(".turn")].map((turn) => [turn.dataset.id, turn]));
  const fresh = [...part.querySelectorAll(".turn")].filter((turn) => !known.has(turn.dataset.id));
  updateKnown(part, known);
  refreshHead();
  if (!fresh.length) return;
  if (!known.size) {
    document.querySelector(".pane-list > .empty")?.remove();
    entries.replaceChildren(...part.querySelector(".entries").children);
    watchChunk(entries.firstElementChild);
    return;
  }
  insertFresh(part, entries, known);
  announce(fresh.length);
}

/** Updates rows that are already shown: which are struck through, and which one is current. */
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
    else if (steps && steps.querySelectorAll("ol > li").length !== oldSteps.querySelectorAll("ol > li").length) {
      steps.open = oldSteps.open;
      oldSteps.replaceWith(steps);
    }
  }
}

/** Inserts the new first page before older entries, without scrolling the list. */
function insertFresh(part, entries, known) {
  const view = scroller();
  const before = view.scrollHeight;
  const place = view.scrollTop;
  const current = document.querySelector("a.row[aria-current]")?.pathname;
  const chunk = part.querySelector(".entries > .chunk");
  // Entries that are already shown keep what the user has unfolded.
  for (const turn of chunk.querySelectorAll(".turn")) {
    const old = known.get(turn.dataset.id);
    if (old) turn.replaceWith(old);
  }
  for (const empty of entries.querySelectorAll(".run:not(:has(.turn)), .day:not(:has(.turn))")) empty.remove();
  for (const old of [...entries.children]) {
    if (!old.childElementCount && !hidden.has(old)) old.remove();
  }
  if (entries.firstElementChild) joinDays(chunk, entries.firstElementChild);
  entries.prepend(chunk);
  watchChunk(chunk);
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
