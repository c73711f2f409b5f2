// Rollbacks and undos: the live plan at the foot of a turn, the dialog, and "Take that back".

import { Problem, count, fetchPart, make, post, showProblem, toast } from "./page.js";

/** The foot of the turn that is shown. */
let foot = null;

/** Sets up the foot of a turn that has just been shown. */
export function startRestore(root) {
  const form = root.querySelector("form.restore");
  foot = form ? new Foot(form, root) : null;
  if (!foot) return;
  const own = foot;
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    own.confirm();
  });
  form.addEventListener("change", () => own.update());
  own.watch();
  own.update();
}

/** Keeps the foot when another part of the same turn is shown. */
export function keepRestore() {
  foot?.watch();
}

/** Makes the plan again after the workspace has changed, unless the user is looking at the plan. */
export function planAgain() {
  if (!document.querySelector("dialog[open]")) foot?.update();
}

/** Chooses an action, and shows its plan in the dialog once it has been made. */
export async function choose(action) {
  const own = foot;
  own.form.querySelector(`input[value="${action}"]`).checked = true;
  await own.update();
  if (own !== foot || document.querySelector("dialog[open]")) return;
  if (own.form.querySelector("button").disabled) toast(own.form.querySelector(".plan").textContent);
  else own.confirm();
}

/** The time after which a plan is requested again if the store was busy, in milliseconds. */
const RETRY = 2000;

class Foot {
  constructor(form, root) {
    this.form = form;
    this.root = root;
    this.plan = null;
    this.request = null;
    this.asked = null;
    this.isForced = false;
    // The user's resolution of the conflicts in each file, by the file's path as JSON.
    this.ways = new Map();
    this.taken = new Set();
    // The selected paths, as JSON. They stay selected while another part of the turn is shown.
    this.ticked = new Set();
  }

  get boxes() {
    return [...this.root.querySelectorAll('.file input[name="path"]')];
  }

  /** Handles changes to the check boxes of the part that is shown. */
  watch() {
    this.root.querySelector(".tab")?.addEventListener("change", (event) => this.tick(event.target));
    this.boxes.forEach((file) => (file.checked = this.ticked.has(file.value)));
    this.showShares();
    this.markEdited();
  }

  get action() {
    return this.form.elements.action.value;
  }

  get label() {
    return this.form.querySelector('input[name="action"]:checked').dataset.label;
  }

  /** Updates the other check boxes: the box of a directory, or "all", selects the files below it. */
  tick(box) {
    if (!box.matches?.('input[type="checkbox"]')) return;
    if (box.dataset.all !== undefined) this.boxes.forEach((file) => (file.checked = box.checked));
    if (box.dataset.directory !== undefined) {
      const below = box.closest(".directory").querySelectorAll('input[name="path"]');
      below.forEach((file) => (file.checked = box.checked));
    }
    this.ticked = new Set(this.boxes.filter((file) => file.checked).map((file) => file.value));
    this.showShares();
    const number = this.ticked.size;
    const choice = this.form.querySelector('input[value="files"]');
    choice.disabled = number === 0;
    choice.dataset.label = number === 1 ? "Restore 1 selected file" : `Restore ${number} selected files`;
    if (number) choice.checked = true;
    else if (choice.checked) this.form.querySelector('input[value="rollback"]').checked = true;
    this.update();
  }

  showShares() {
    for (const directory of this.root.querySelectorAll(".directory")) {
      setShare(directory.querySelector("[data-directory]"), [...directory.querySelectorAll('input[name="path"]')]);
    }
    setShare(this.root.querySelector("[data-all]"), this.boxes);
  }

  makeRequest(extra = {}) {
    const { workspace, checkpoint } = this.form.dataset;
    const request = { workspace, checkpoint, ...extra };
    if (this.action === "undo") {
      request.undo = true;
      request.files = [...this.ways].map(([path, resolution]) => ({ path: JSON.parse(path), resolution }));
      request.taken = [...this.taken].map((path) => JSON.parse(path));
    }
    if (this.action === "files") {
      request.paths = [...this.ticked].map((path) => JSON.parse(path));
    }
    return request;
  }

  /** Makes the plan of the chosen action. Returns once the newest plan is shown. */
  async update(extra) {
    this.updating = this.askForPlan(extra);
    for (let last; last !== this.updating; ) await (last = this.updating);
  }

  /** Asks for the plan, and shows it in one line. */
  async askForPlan(extra) {
    const button = this.form.querySelector("button");
    const line = this.form.querySelector(".plan");
    button.textContent = `${this.label}…`;
    button.disabled = true;
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    // A short wait shows nothing, so that the line does not flicker.
    const slow = setTimeout(() => (line.textContent = "Comparing with the workspace…"), 300);
    this.request = this.makeRequest(extra);
    try {
      const answer = await post("plan", this.request, asked.signal);
      if (this.asked !== asked) return;
      this.show(answer);
    } catch (error) {
      if (asked.signal.aborted) return;
      this.plan = null;
      line.textContent = explain(error);
      // The store or the server may be busy for a moment.
      const isPassing = !(error instanceof Problem) || error.body.status === 503;
      if (isPassing) setTimeout(() => this.asked === asked && this.form.isConnected && this.update(extra), RETRY);
    } finally {
      clearTimeout(slow);
    }
  }

  show(answer) {
    this.plan = answer;
    const line = this.form.querySelector(".plan");
    line.replaceChildren(...summary(answer));
    // A plan without changes may still have conflicts, which the user can resolve.
    const isOpen = (answer.plan.conflicts ?? []).length + (answer.plan.uncertain ?? []).length > 0;
    this.form.querySelector("button").disabled = answer.empty && !isOpen;
    this.markEdited();
  }

  /** Marks the files that have been edited since the turn. */
  markEdited() {
    if (!this.plan) return;
    const { others, conflicts = [] } = this.plan.plan;
    const since = new Set([...others, ...conflicts.map((found) => found.path)].map((path) => JSON.stringify(path)));
    for (const file of this.root.querySelectorAll(".file[data-path], .diff-file[data-path]")) {
      const isEdited = since.has(JSON.stringify(JSON.parse(file.dataset.path)));
      const mark = file.querySelector(".since");
      mark.textContent = isEdited ? "⚠ edited since" : "";
    }
  }

  /** Shows the plan in full, and applies it once the user confirms it. */
  confirm() {
    if (!this.plan) return;
    if (this.plan.working.length && !this.isForced) {
      this.offerLater(this.plan.working);
      return;
    }
    const dialog = document.getElementById("confirm");
    const isBlocked = this.plan.plan.blocked.length > 0;
    const keep = make("button", { type: "button", class: "safe", text: "Keep everything as it is", autofocus: true });
    const label = isBlocked ? "Skip these and restore the rest" : this.label;
    const go = make("button", { type: "button", class: "danger", text: label });
    const { digest, empty } = this.plan;
    keep.addEventListener("click", () => dialog.close());
    go.addEventListener("click", () => {
      dialog.close();
      if (isBlocked) this.update({ skip_blocked: true }).then(() => this.confirm());
      else this.apply(digest);
    });
    // Esc and the safe button also revoke the permission to make changes while an agent is working.
    dialog.onclose = () => (this.isForced = false);
    go.disabled = empty;
    const scrolled = dialog.open ? dialog.querySelector(".body")?.scrollTop ?? 0 : 0;
    dialog.classList.toggle("wide", (this.plan.plan.conflicts ?? []).length > 0);
    dialog.replaceChildren(
      make("h2", { id: "confirm-title", text: `${this.label}?` }),
      make("div", { class: "body" }, ...describePlan(this.plan.plan, this)),
      make("div", { class: "buttons" }, keep, go),
    );
    const isNew = !dialog.open;
    if (isNew) dialog.showModal();
    dialog.querySelector(".body").scrollTop = scrolled;
    if (isNew) keep.focus();
  }

  /** Plans again after the user has made a choice for one file, and keeps the focus. */
  async decide(path, change) {
    change();
    await this.update();
    this.confirm();
    const choice = [...document.querySelectorAll("#confirm [data-choice]")].find((own) => own.dataset.choice === path);
    choice?.querySelector("input:checked, input")?.focus();
  }

  /** Applies the plan that the user has seen. */
  async apply(digest) {
    const button = this.form.querySelector("button");
    button.disabled = true;
    try {
      const done = await post("apply", { digest, while_working: this.isForced });
      reportDone(done, this.form.dataset.workspace);
    } catch (error) {
      if (error instanceof Problem && error.body.now) {
        this.show(error.body.now);
        toast("The workspace changed meanwhile. Nothing was restored; this is the new plan.", { bad: true });
        this.confirm();
        return;
      }
      if (error.body?.working?.length) {
        this.offerLater(error.body.working);
        return;
      }
      showProblem(error);
    }
    this.update();
  }

  /** Says that an agent is working in the workspace, and offers to ask again when the agent's turn ends. */
  offerLater(working) {
    const dialog = document.getElementById("confirm");
    const names = [...new Set(working.map((session) => session.split(":")[0]))].join(", ");
    const keep = make("button", { type: "button", class: "safe", text: "Keep everything as it is", autofocus: true });
    const later = make("button", { type: "button", text: "Ask me again when the turn ends" });
    const now = make("button", { type: "button", class: "quiet", text: "It is no longer running: go on" });
    keep.addEventListener("click", () => dialog.close());
    later.addEventListener("click", () => {
      dialog.close();
      this.waitForEnd(names);
    });
    now.addEventListener("click", () => {
      this.isForced = true;
      this.update().then(() => this.confirm());
    });
    dialog.replaceChildren(
      make("h2", { id: "confirm-title", text: `${names} is working here now` }),
      make("div", { class: "body" },
        make("p", { text: "Nothing was changed: a turn is running in this workspace, and a rollback would change files while the agent is using them." })),
      make("div", { class: "buttons" }, now, later, keep),
    );
    dialog.onclose = null;
    if (!dialog.open) dialog.showModal();
    keep.focus();
  }

  /** Waits until no agent is working in the workspace, and then shows the new plan. */
  waitForEnd(names) {
    let isWaiting = true;
    const stop = () => (isWaiting = false);
    toast(`Waiting for the turn of ${names} to end.`, { button: { label: "Stop waiting", run: stop } });
    const look = async () => {
      if (!isWaiting) return;
      await this.update();
      if (!this.plan || this.plan.working.length) {
        setTimeout(look, POLL);
        return;
      }
      toast(`The turn of ${names} has ended. This is the plan now.`);
      this.confirm();
    };
    setTimeout(look, POLL);
  }
}

/** The time between two checks of a workspace in which an agent is working, in milliseconds. */
const POLL = 1500;

/** Offers a rollback to a checkpoint on a page other than the checkpoint's. */
export async function offerRollback(workspace, checkpoint) {
  const label = "Roll back to before this turn";
  const choice = make("input", { type: "radio", name: "action", value: "rollback", checked: true, "data-label": label });
  const form = make("form", { "data-workspace": workspace, "data-checkpoint": checkpoint },
    choice, make("p", { class: "plan" }), make("button", { type: "button" }));
  const foot = new Foot(form, form);
  await foot.update();
  if (!foot.plan || foot.plan.empty) toast(form.querySelector(".plan").textContent, { bad: !foot.plan });
  else foot.confirm();
}

function setShare(box, files) {
  if (!box) return;
  const ticked = files.filter((file) => file.checked).length;
  box.checked = ticked > 0 && ticked === files.length;
  box.indeterminate = ticked > 0 && ticked < files.length;
}

function explain(error) {
  const body = error.body ?? {};
  const causes = (body.causes ?? []).join("; ");
  const text = `${body.title ?? error.message}${causes ? `: ${causes}` : ""}`;
  return `${text.replace(/^./, (letter) => letter.toUpperCase())}.${body.hint ? ` ${body.hint.replace(/^./, (letter) => letter.toUpperCase())}.` : ""}`;
}

const kinds = (effects) => [...new Set(effects.map((effect) => effect.kind))].join("/");

/** Returns the paths in a list, except directories that contain other paths in the list. */
function files(paths) {
  const names = paths.map((path) => (typeof path === "string" ? path : atob(path.bytes)));
  const above = new Set();
  for (const name of names) {
    for (let at = name.indexOf("/"); at > 0; at = name.indexOf("/", at + 1)) above.add(name.slice(0, at));
  }
  return paths.filter((_, index) => !above.has(names[index]));
}

const show = (path) => (typeof path === "string" ? path : `(bytes ${path.bytes})`);

/** The plan in one line, in the future tense. */
function summary({ plan, empty }) {
  if (empty) {
    const left = (plan.conflicts ?? []).length + (plan.uncertain ?? []).length;
    return [left ? `Nothing can be undone until you choose: ${count(left, "file")} edited since.` : "Nothing to do: everything is already in that state."];
  }
  const elsewhere = plan.elsewhere ?? [];
  const outside = elsewhere.reduce((sum, part) => sum + files(part.restored).length + files(part.deleted).length, 0);
  const parts = [];
  const add = (number, words) => number && parts.push(words);
  const [restored, deleted] = [files(plan.restored).length, files(plan.deleted).length];
  add(restored, `restores ${count(restored, "file")}`);
  add(deleted, `deletes ${deleted.toLocaleString("en")}`);
  add(outside, `changes ${outside} outside the workspace`);
  const kept = plan.kept.length + plan.guarded.length;
  add(kept, `keeps ${kept.toLocaleString("en")}`);
  const undone = plan.undone_messages;
  add(undone, `takes back ${count(undone, "message")}`);
  add(plan.redone_messages, `restores ${count(plan.redone_messages, "message")}`);
  const conflicts = (plan.conflicts ?? []).filter((found) => !found.resolved).length;
  add(conflicts, `leaves ${count(conflicts, "conflict")}`);
  const text = parts.join(", ");
  const nodes = [make("strong", { text: `${text.charAt(0).toUpperCase()}${text.slice(1)}.` })];
  if (plan.others.length) nodes.push(` ${count(plan.others.length, "file")} edited since.`);
  if (plan.blocked.length) nodes.push(` ⚠ ${count(plan.blocked.length, "path")} cannot be restored.`);
  if (plan.effects.length) nodes.push(` ⚠ ${kinds(plan.effects)} effects stay.`);
  return nodes;
}

/** The plan in full, as nodes for the dialog. */
function describePlan(plan, foot) {
  const list = (title, items) =>
    items.length
      ? make("section", {}, make("h3", { text: title }), make("ul", { class: "list", tabindex: "0" }, ...items.map((item) => make("li", { text: item }))))
      : null;
  const nodes = [make("p", {}, ...summary({ plan, empty: foot.plan.empty }))];
  if (plan.effects.length) {
    nodes.push(make("div", { class: "note warning", role: "note" },
      make("span", { class: "sign", text: "⚠", "aria-hidden": "true" }),
      make("div", {},
        make("p", { text: `Files will be restored, but ${kinds(plan.effects)} changes made by these commands cannot be reversed:` }),
        make("ul", { class: "list" }, ...plan.effects.map((effect) => make("li", { text: effect.command }))))));
  }
  // What the user has to decide comes first.
  for (const found of plan.conflicts ?? []) nodes.push(conflictChoice(found, foot));
  nodes.push(doubtChoice(plan, foot));
  nodes.push(list("Cannot be restored", plan.blocked.map((found) => show(found.path))));
  nodes.push(list("Edited since, by you or another agent (saved in the safety checkpoint)", plan.others.map(show)));
  nodes.push(list("Will be restored", files(plan.restored).map(show)));
  nodes.push(list("Will be deleted", files(plan.deleted).map(show)));
  for (const part of plan.elsewhere ?? []) {
    nodes.push(list(`Changes in ${show(part.workspace)}`, [...files(part.restored), ...files(part.deleted)].map(show)));
  }
  nodes.push(list("Kept", [...plan.kept.map((found) => show(found.path)), ...plan.guarded.map(show)]));
  if (plan.repository?.command) {
    nodes.push(make("p", { text: "HEAD of the git repository has moved since. To move it back: " }, make("code", { text: plan.repository.command })));
  }
  nodes.push(...plan.warnings.map((text) => make("p", { class: "note warning", text })));
  nodes.push(make("p", { class: "faint", text: "The current state is saved first. “Take that back” returns to it." }));
  return nodes.filter(Boolean);
}

const WAYS = [
  ["leave", "Leave this file as it is"],
  ["ours", "Keep my lines, undo the rest"],
  ["theirs", "Restore the lines from before the turn"],
  ["markers", "Write both, with markers"],
];

/** A file in which lines that the turn changed have been edited since: both versions, and a choice between them. */
function conflictChoice(found, foot) {
  const path = JSON.stringify(found.path);
  const chosen = foot.ways.get(path) ?? "leave";
  const { workspace, checkpoint } = foot.form.dataset;
  const options = WAYS.map(([way, words]) => {
    const radio = make("input", { type: "radio", name: `way-${path}`, value: way, checked: way === chosen });
    radio.addEventListener("change", () => foot.decide(path, () => foot.ways.set(path, way)));
    return make("label", {}, radio, words);
  });
  const body = make("div", { class: "diff-body", tabindex: "0", role: "region", "aria-label": `${show(found.path)}: before the turn, and now` });
  // A narrow window has no room for two columns of code.
  const isWide = matchMedia("(min-width: 700px)").matches;
  const source = `/w/${workspace}/c/${checkpoint}/file?path=${encodeURIComponent(path)}&to=now&split=${isWide ? 1 : 0}`;
  fetchPart(source).then((part) => body.replaceChildren(part), () => body.replaceChildren(make("p", { text: "The versions cannot be shown." })));
  return make("fieldset", { class: "conflict", "data-choice": path },
    make("legend", {}, make("code", { text: show(found.path) }), ` ${found.reason}`),
    make("div", { class: isWide ? "sides" : "sides one", "aria-hidden": "true" },
      make("span", { text: isWide ? "Before the turn" : "− before the turn" }), make("span", { text: isWide ? "Now, with my edits" : "+ now, with my edits" })),
    body,
    make("div", { class: "ways" }, ...options));
}

/** Files that others may have changed during the turn. They are taken back only if the user selects them. */
function doubtChoice(plan, foot) {
  const doubts = plan.doubts ?? [];
  const paths = [...new Set([...doubts.map((found) => JSON.stringify(found.path)), ...foot.taken])];
  if (!paths.length) return null;
  const reason = (path) => doubts.find((found) => JSON.stringify(found.path) === path)?.reason;
  return make("fieldset", { class: "conflict" },
    make("legend", { text: "Perhaps changed by others. Left as they are unless you select them" }),
    ...paths.map((path) => {
      const box = make("input", { type: "checkbox", checked: foot.taken.has(path) });
      const change = () => (box.checked ? foot.taken.add(path) : foot.taken.delete(path));
      box.addEventListener("change", () => foot.decide(path, change));
      return make("label", { "data-choice": path }, box, make("code", { text: show(JSON.parse(path)) }), ` ${reason(path) ?? ""}`);
    }));
}

/** Says what was done, in the past tense, with a button to take it back. */
function reportDone(done, workspace) {
  const parts = [];
  const [restored, deleted] = [files(done.restored).length, files(done.deleted).length];
  if (restored) parts.push(`restored ${count(restored, "file")}`);
  if (deleted) parts.push(`deleted ${deleted.toLocaleString("en")}`);
  if (done.undone_messages) parts.push(`took back ${count(done.undone_messages, "message")}`);
  if (done.redone_messages) parts.push(`restored ${count(done.redone_messages, "message")}`);
  const text = parts.length ? parts.join(", ") : "nothing had to be changed";
  const way = done.action === "undo" ? "redo" : "undo";
  const button = done.safety_checkpoint
    ? { label: "Take that back", run: () => takeBack(workspace, way) }
    : undefined;
  toast(`Done: ${text}.`, { button, details: (done.sessions ?? []).map((moved) => describeMoved(moved, done.chat)).filter(Boolean) });
  document.dispatchEvent(new Event("takeback:changed"));
}

/** Says how to continue an agent's own conversation, or why it stays as it is. */
function describeMoved({ resume, stays }, chat) {
  if (resume?.in_place) return make("div", { text: "The open agent continues from there." });
  if (resume) return make("div", { text: "Continue in a terminal: " }, make("code", { text: continuation(resume) }));
  if (!stays) return null;
  const byHand = chat?.resume ? ` To take it back: ${chat.resume}.` : "";
  return make("div", { text: `The agent’s own conversation stays as it is: ${stays}.${byHand}` });
}

/** The command that continues a conversation, for a shell. */
function continuation({ argv, cwd }) {
  const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  const words = argv.map(quote).join(" ");
  return cwd ? `cd ${quote(cwd)} && ${words}` : words;
}

/** Reverses the last rollback. */
export async function takeBack(workspace, way, button, isForced = false) {
  if (button) button.disabled = true;
  try {
    reportDone(await post(way, { workspace, while_working: isForced }), workspace);
    const form = document.querySelector("form.restore");
    form?.dispatchEvent(new Event("change"));
  } catch (error) {
    if (button) button.disabled = false;
    if (error.body?.working?.length) {
      const names = [...new Set(error.body.working.map((session) => session.split(":")[0]))].join(", ");
      const run = () => takeBack(workspace, way, button, true);
      toast(`${names} is working here. Nothing was changed.`, { bad: true, button: { label: "Take back anyway", run } });
    } else showProblem(error);
  }
}
