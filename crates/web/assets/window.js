// The window of the timeline: only entries near the view are in the page, so that it stays fast
// with thousands of them.

import { fetchPart, updateTimes } from "./page.js";

const WIDE = matchMedia("(min-width: 1100px)");

/** The element that scrolls the list. */
export const scroller = () =>
  WIDE.matches ? document.querySelector("[data-pane=list]") : document.scrollingElement;

/** The address of each chunk's entries, without the parameter `part`. */
const addresses = new WeakMap();
// The entries of chunks that are far from the view.
const hidden = new Map();
// Chunks whose entries may have changed since they were fetched.
const stale = new Set();

const entries = () => document.querySelector(".entries");
const chunks = () => [...entries().children];
export const turnsOf = (chunk) => [...(hidden.get(chunk) ?? chunk).querySelectorAll(".turn")];

/** Returns all entries that have been fetched, in order, by their ids. */
export function knownTurns() {
  return new Map(chunks().flatMap(turnsOf).map((turn) => [turn.dataset.id, turn]));
}

/** Returns the chunk that an entry is a part of, even if the entry is not in the page. */
export function chunkOf(turn) {
  return turn.closest(".chunk") ?? chunks().find((chunk) => hidden.get(chunk)?.contains(turn));
}

let watcher;

/** Watches all chunks. Called again when the window becomes wide or narrow, because another element then scrolls. */
function watchChunks() {
  watcher?.disconnect();
  watcher = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!target.isConnected) forgetChunk(target);
      else if (isIntersecting) showChunk(target);
      else hideChunk(target);
    }
  }, { root: WIDE.matches ? scroller() : null, rootMargin: "2000px" });
  chunks().forEach((chunk) => watcher.observe(chunk));
}

export function startWindow(address, rewatch) {
  const first = entries().firstElementChild;
  if (first) addresses.set(first, address);
  watchChunks();
  WIDE.addEventListener("change", () => {
    watchChunks();
    rewatch();
  });
}

/** Watches a chunk that has been added. Its address is needed to bring it up to date. */
export function addChunk(chunk, address) {
  addresses.set(chunk, String(address));
  watcher.observe(chunk);
}

export function forgetChunk(chunk) {
  watcher.unobserve(chunk);
  hidden.delete(chunk);
  stale.delete(chunk);
}

/** Sets the address of a chunk that has lost entries to another chunk. */
export function setAddress(chunk, address) {
  addresses.set(chunk, String(address));
}

function hideChunk(chunk) {
  if (hidden.has(chunk) || chunk.contains(document.activeElement) || !chunk.offsetHeight) return;
  chunk.style.height = `${chunk.offsetHeight}px`;
  const fragment = document.createDocumentFragment();
  fragment.append(...chunk.childNodes);
  hidden.set(chunk, fragment);
}

export function showChunk(chunk) {
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
  if (stale.has(chunk)) updateChunk(chunk);
}

/** Brings older entries up to date: immediately if they are in the page, otherwise when they are shown again. */
export function updateOlder(fetched) {
  for (const chunk of chunks().filter((chunk) => !fetched.has(chunk))) {
    stale.add(chunk);
    if (!hidden.has(chunk)) updateChunk(chunk);
  }
}

async function updateChunk(chunk) {
  stale.delete(chunk);
  let part;
  try {
    const address = new URL(addresses.get(chunk), location.href);
    address.searchParams.set("part", "rows");
    part = await fetchPart(address);
  } catch {
    stale.add(chunk);
    return;
  }
  updateTimes(part);
  const found = new Map([...part.querySelectorAll(".turn")].map((turn) => [turn.dataset.id, turn]));
  for (const turn of turnsOf(chunk)) {
    const now = found.get(turn.dataset.id);
    if (now) updateTurn(turn, now);
    else turn.remove();
  }
  dropEmpty(hidden.get(chunk) ?? chunk);
}

/** Updates an entry that is already shown, and keeps what the user has unfolded. */
export function updateTurn(old, now) {
  old.className = now.className;
  old.querySelector(".row").replaceChildren(...now.querySelector(".row").cloneNode(true).childNodes);
  const steps = now.querySelector(".steps");
  const oldSteps = old.querySelector(".steps");
  const number = (part) => part.querySelectorAll("ol > li").length;
  if (steps && !oldSteps) old.append(steps.cloneNode(true));
  else if (steps && number(steps) !== number(oldSteps)) {
    const fresh = steps.cloneNode(true);
    fresh.open = oldSteps.open;
    oldSteps.replaceWith(fresh);
  }
}

/** Removes the headings of days and sessions that have no entry left. */
export function dropEmpty(root) {
  for (const empty of root.querySelectorAll(".run:not(:has(.turn)), .day:not(:has(.turn))")) empty.remove();
}

/** Leaves out the heading of a day that began in the previous chunk. */
export function joinDays(before, chunk) {
  const days = before ? (hidden.get(before) ?? before).querySelectorAll(".day") : [];
  const last = days[days.length - 1]?.dataset.day;
  const first = (hidden.get(chunk) ?? chunk).querySelector(".day");
  first?.classList.toggle("continued", first.dataset.day === last);
}

/** Changes the list without moving the entry at the top of the view, or the focus. */
export function keepPlace(change) {
  const view = scroller();
  const edge = WIDE.matches ? view.getBoundingClientRect().top : 0;
  const isRead = view.scrollTop > 0;
  const read = isRead && [...entries().querySelectorAll(".row")].find((row) => row.getBoundingClientRect().bottom > edge);
  const before = read && read.getBoundingClientRect().top;
  const focused = entries().contains(document.activeElement) ? document.activeElement : null;
  change();
  // An entry that moves to another place in the page loses the focus.
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  if (read?.isConnected) view.scrollTop += read.getBoundingClientRect().top - before;
}
