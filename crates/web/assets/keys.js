// Keyboard shortcuts: the same keys as in the terminal.

import { updateTimes } from "./page.js";
import { choose } from "./restore.js";

const rows = () => [...document.querySelectorAll(".pane-list .row")];

export function startKeys({ open, close }) {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input:not([type=checkbox]):not([type=radio]), select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (press(event.key, event.target, { open, close })) event.preventDefault();
  });
}

/** Performs the action of a key. Returns false if the key has none. */
function press(key, target, { open, close }) {
  switch (key) {
    case "j":
    case "ArrowDown":
      return move(1, target, key);
    case "k":
    case "ArrowUp":
      return move(-1, target, key);
    case " ":
      return unfold(target);
    case "/":
      document.querySelector("[data-key='/']").focus();
      return true;
    case "?":
      document.getElementById("keys").showModal();
      return true;
    case "t":
      document.documentElement.dataset.times =
        document.documentElement.dataset.times === "absolute" ? "relative" : "absolute";
      updateTimes();
      return true;
    case "R":
      return offer("rollback");
    case "u":
      return offer("undo");
    case "U":
      return click("#last-action button");
    case "Escape":
      if (!document.querySelector(".panes.show-detail")) return false;
      close();
      return true;
    default:
      return key.length === 1 && openTab(key, open);
  }
}

/** Moves the focus to the next or previous row. */
function move(step, target, key) {
  const all = rows();
  if (!all.length) return false;
  // Outside the list, arrow keys scroll the page.
  if (key.startsWith("Arrow") && !target.closest?.(".pane-list")) return false;
  const own = target.closest?.(".turn")?.querySelector(".row");
  const at = all.indexOf(own ?? document.querySelector(".pane-list .row[aria-current]"));
  const next = all[at === -1 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

/** Unfolds the steps of the row that has the focus. */
function unfold(target) {
  if (!target.matches?.(".row")) return false;
  const steps = target.closest(".turn").querySelector(".steps");
  if (!steps) return false;
  steps.open = !steps.open;
  return true;
}

function openTab(key, open) {
  const tab = document.querySelector(`.tabs a[data-key="${CSS.escape(key)}"]`);
  if (!tab) return false;
  open(tab.href);
  return true;
}

/** Shows the plan of an action, if the page has that action. */
function offer(action) {
  if (!document.querySelector(`form.restore input[value="${action}"]`)) return false;
  choose(action);
  return true;
}

function click(selector) {
  const button = document.querySelector(selector);
  button?.click();
  return Boolean(button);
}
