// Taking, naming, pinning and deleting checkpoints, and pruning.

import { count, make, post, send, showProblem, toast } from "./page.js";

export function startLabels() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-label]");
    if (button) run(button);
  });
  const form = document.querySelector("form.prune");
  if (form) startPrune(form);
}

function run(button) {
  const { label, workspace, checkpoint, value } = button.dataset;
  const address = `checkpoints/${workspace}/${checkpoint}`;
  if (label === "take") askText("Take a checkpoint now", "Reason", "", "Take a checkpoint", (reason) =>
    change(() => post("checkpoints", { workspace, reason: reason || "taken by hand" }), "Took a checkpoint."));
  if (label === "name") askText("Name this checkpoint", "Name", value, "Save the name", (name) =>
    change(() => send("PATCH", address, { name: name || null }), name ? `The checkpoint is called ${name}. It is never pruned.` : "Removed the name."));
  if (label === "pin") {
    const pinned = value !== "true";
    change(() => send("PATCH", address, { pinned }), pinned ? "Pinned: it is never pruned." : "No longer pinned.");
  }
  if (label === "delete") confirm("Delete this checkpoint?",
    [make("p", { text: "Your files stay as they are, but then no rollback can return to this state. A turn is deleted with all its steps. This cannot be undone." })],
    "Delete for good", () => change(() => send("DELETE", address), "Deleted the checkpoint.", true));
}

/** Makes a change, tells the user, and updates the page. */
async function change(request, words, leaves = false) {
  try {
    await request();
  } catch (error) {
    showProblem(error);
    return;
  }
  toast(words);
  document.dispatchEvent(new CustomEvent("takeback:changed", { detail: { leaves } }));
}

function confirm(title, nodes, label, act) {
  const dialog = document.getElementById("confirm");
  const keep = make("button", { type: "button", class: "safe", text: "Keep everything as it is" });
  const go = make("button", { type: "button", class: "danger", text: label });
  keep.addEventListener("click", () => dialog.close());
  go.addEventListener("click", () => {
    dialog.close();
    act();
  });
  dialog.classList.remove("wide");
  dialog.replaceChildren(make("h2", { id: "confirm-title", text: title }),
    make("div", { class: "body" }, ...nodes), make("div", { class: "buttons" }, keep, go));
  dialog.showModal();
  keep.focus();
}

function askText(title, label, value, action, act) {
  const dialog = document.getElementById("confirm");
  const field = make("input", { type: "search", id: "asked", maxlength: "200", value: value ?? "", autocomplete: "off" });
  const cancel = make("button", { type: "button", text: "Cancel" });
  const form = make("form", { class: "ask" },
    make("label", { for: "asked", text: label }), field,
    make("div", { class: "buttons" }, cancel, make("button", { type: "submit", class: "safe", text: action })));
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close();
    act(field.value.trim());
  });
  dialog.classList.remove("wide");
  dialog.replaceChildren(make("h2", { id: "confirm-title", text: title }), form);
  dialog.showModal();
  field.focus();
}

/** The form on the health page: shows what a prune would delete before anything is deleted. */
function startPrune(form) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const request = { orphans: form.elements.orphans.checked };
    for (const name of ["retention_days", "max_size_mb"]) {
      if (form.elements[name].value !== "") request[name] = Number(form.elements[name].value);
    }
    try {
      const shown = await post("prune", request);
      const lines = shown.workspaces.map((found) =>
        `${found.path}: ${count(found.checkpoints, "checkpoint")} and ${count(found.steps, "step")} (${found.because})`);
      const all = [...lines, ...shown.legacy];
      if (!all.length) {
        toast("Nothing exceeds the limits.");
        return;
      }
      const nodes = [make("p", { text: "These checkpoints would be deleted for good. Pinned and named ones stay." }),
        make("ul", { class: "list", tabindex: "0" }, ...all.map((text) => make("li", { text })))];
      confirm("Prune the store?", nodes, "Delete these checkpoints", () => prune(request));
    } catch (error) {
      showProblem(error);
    }
  });
}

async function prune(request) {
  try {
    const done = await post("prune", { ...request, dry_run: false });
    const number = done.workspaces.reduce((sum, found) => sum + found.checkpoints, 0);
    toast(`Deleted ${count(number, "checkpoint")}.`);
    setTimeout(() => location.reload(), 1200);
  } catch (error) {
    showProblem(error);
  }
}
