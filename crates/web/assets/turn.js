// The turn that is running: shows its events as they arrive.

import { count, make, parse, updateTimes } from "./page.js";
import { offerRollback } from "./restore.js";

/** Shows the events of a turn, and the answers to commands. */
export class LiveTurn {
  constructor(root, { answer }) {
    this.root = root;
    this.answerQuestion = answer;
    this.reset([]);
  }

  /** Shows exactly these entries, which have the form of events. */
  reset(entries) {
    this.root.replaceChildren();
    this.calls = new Map();
    this.block = null;
    for (const entry of entries) this.add(entry.event, entry);
  }

  /** Returns the nodes that are shown now. Nodes that are shown later are added after them. */
  close() {
    this.block = null;
    this.calls.clear();
    return [...this.root.children];
  }

  add(name, data) {
    const show = SHOWN[name];
    if (show) show(this, data);
  }

  append(node) {
    this.block = null;
    this.root.append(node);
    return node;
  }

  /** Returns the answer or the reasoning that is being written. */
  open(kind) {
    if (this.block?.kind !== kind) {
      const block = kind === "answer" ? makeAnswer() : makeReasoning();
      this.append(block.node);
      this.block = { kind, ...block, rest: "" };
    }
    return this.block;
  }

  call(data) {
    let call = this.calls.get(data.call);
    if (!call) {
      call = makeCall(data);
      this.calls.set(data.call, call);
      this.append(call.node);
    }
    return call;
  }
}

const SHOWN = {
  turn_started: (turn, { prompt }) => prompt && turn.append(makePrompt(prompt)),
  text(turn, { text }) {
    const block = turn.open("answer");
    block.rest += text;
    showRest(block);
  },
  html: addBlocks,
  answer: addBlocks,
  reasoning(turn, { text }) {
    const block = turn.open("reasoning");
    block.rest = (block.rest + text).slice(-8000);
    block.text.textContent = block.rest;
  },
  call_started(turn, data) {
    const call = turn.call(data);
    if (data.output) addOutput(call, data.output);
  },
  call_output: (turn, data) => addOutput(turn.call(data), data.text),
  call_ended(turn, data) {
    const call = turn.call(data);
    const lines = data.output.split("\n").length;
    call.node.classList.add(data.is_error ? "failed" : "done");
    call.mark.textContent = data.is_error ? "✗" : "✓";
    call.mark.setAttribute("aria-label", data.is_error ? "failed" : "done");
    const first = data.output.trim().split("\n")[0] ?? "";
    call.outcome.textContent = data.is_error || lines < 2 ? first.slice(0, 120) : count(lines, "line");
    call.output.textContent = data.output;
    call.output.hidden = !data.output;
    call.node.open = false;
  },
  question: (turn, data) => turn.append(makeQuestion(data, turn.answerQuestion)),
  answered(turn, { question, answer }) {
    const card = turn.root.querySelector(`[data-question="${CSS.escape(String(question))}"]`);
    const words = { allow: "Allowed.", always: "Allowed from now on.", deny: "Not allowed.", later: "Not answered." };
    card?.replaceWith(note(words[answer] ?? answer));
  },
  retrying: (turn, { because, wait_ms }) =>
    turn.append(note(`${because}; trying again in ${(wait_ms / 1000).toFixed(1)} s`, "warning")),
  continuing: (turn, { because }) => turn.append(note(`${because}; asking for the rest of the answer`, "warning")),
  failed_over: (turn, { because, provider }) => turn.append(note(`${because}; ${provider} takes over`, "warning")),
  compressed: (turn) => turn.append(note("Older turns were summarized. The conversation continues in a new session.")),
  warning: (turn, { text }) => turn.append(note(text, "warning")),
  slash: (turn, data) => turn.append(makeSlash(data)),
  ended: (turn, { words, bad }) => turn.append(note(words, bad ? "warning" : "info")),
};

function note(text, kind = "info") {
  const sign = kind === "warning" ? make("span", { class: "sign", text: "⚠", "aria-hidden": "true" }) : null;
  return make("div", { class: `note ${kind}` }, sign, make("div", { text }));
}

function makePrompt(prompt) {
  return make("article", { class: "message role-user" },
    make("header", {}, make("span", { class: "role", text: "user" })),
    make("div", { class: "prose plain", text: prompt }));
}

function makeAnswer() {
  const done = make("div", { class: "prose" });
  const rest = make("div", { class: "prose plain rest" });
  const header = make("header", {}, make("span", { class: "role", text: "assistant" }));
  return { node: make("article", { class: "message role-assistant" }, header, done, rest), done, restNode: rest };
}

function makeReasoning() {
  const text = make("div", { class: "prose plain" });
  return { node: make("details", { class: "tool thinking" }, make("summary", { text: "Reasoning" }), text), text };
}

/** Adds the finished blocks of the answer, and shows the unfinished rest as text. */
function addBlocks(turn, { html, rest }) {
  const block = turn.open("answer");
  block.done.append(parse(html));
  block.rest = rest;
  showRest(block);
}

/** Shows the unfinished block. Code looks like code even before its fence ends. */
function showRest({ rest, restNode }) {
  const fence = rest.match(/^\s*(?:```|~~~)[^\n]*\n/);
  if (fence) restNode.replaceChildren(make("pre", {}, make("code", { text: rest.slice(fence[0].length) })));
  else restNode.textContent = rest.trimStart();
}

function makeCall({ tool, title, input, subagent }) {
  const mark = make("span", { class: "mark-call", text: "…", role: "img", "aria-label": "running" });
  const outcome = make("span", { class: "faint outcome" });
  const output = make("pre", { class: "call-output", hidden: true, tabindex: "0" });
  const summary = make("summary", {}, mark,
    subagent ? make("span", { class: "badge", text: `subagent ${subagent}` }) : null,
    make("span", { class: "tool-name", text: tool ?? "call" }), " ", make("code", { text: title ?? "" }), outcome);
  const node = make("details", { class: "tool call live-call" }, summary, make("pre", { text: input ?? "" }), output);
  return { node, mark, outcome, output };
}

function addOutput(call, text) {
  call.output.hidden = false;
  call.output.textContent = (call.output.textContent + text).slice(-8000);
  call.output.scrollTop = call.output.scrollHeight;
  call.outcome.textContent = call.output.textContent.trimEnd().split("\n").pop().slice(0, 120);
}

/** A question about a call. The safe choice comes first. */
function makeQuestion(data, send) {
  const reason = make("input", { type: "text", name: "reason", placeholder: "Or say what to do instead, and press Enter", "aria-label": "What to do instead", autocomplete: "off" });
  const button = (answer, text, kind) => {
    const node = make("button", { type: "button", class: kind, text });
    node.addEventListener("click", () => send(data.question, answer, answer === "deny" ? reason.value : ""));
    return node;
  };
  reason.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    send(data.question, "deny", reason.value);
  });
  const always = data.remember ? button("always", `Allow “${data.remember}” from now on`, "") : null;
  return make("section", { class: "question note warning", "data-question": data.question, "aria-label": "Approval" },
    make("span", { class: "sign", text: "⚠", "aria-hidden": "true" }),
    make("div", {},
      make("h3", { text: data.tool === "terminal" ? "Run this command?" : `Let ${data.tool} do this?` }),
      make("pre", { tabindex: "0", text: data.input.replace(/^command:\s/, "") }),
      make("p", {}, "It ", ...withCode(data.because), "."),
      make("div", { class: "row-buttons" }, button("deny", "Do not run it", "safe"), button("allow", "Allow once", ""), always),
      reason));
}

/** Shows the parts of a text between backticks as code. */
function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 ? make("code", { text: part }) : part));
}

/** A slash command and its answer. */
function makeSlash({ line, text, data, failed, workspace }) {
  const list = !failed && Array.isArray(data?.checkpoints) && workspace ? makeCheckpoints(data.checkpoints, workspace) : null;
  const node = make("article", { class: failed ? "slash failed" : "slash" },
    make("header", {}, make("code", { text: line })),
    list ?? make("pre", { tabindex: "0", text: text || "Done." }));
  updateTimes(node);
  return node;
}

/** The list of checkpoints, each with the button that returns to it. */
function makeCheckpoints(checkpoints, workspace) {
  if (!checkpoints.length) return make("p", { class: "faint", text: "No checkpoints yet. They appear before an agent’s next change." });
  const rows = checkpoints.slice(0, 50).map((row) => {
    const words = (row.prompt ?? row.reason).replace(/\s+/g, " ");
    const facts = [];
    if (row.files_changed != null) facts.push(make("span", { text: count(row.files_changed, "file") }));
    if (row.insertions) facts.push(make("span", { class: "added", text: `+${row.insertions.toLocaleString("en")}` }));
    if (row.deletions) facts.push(make("span", { class: "removed", text: `−${row.deletions.toLocaleString("en")}` }));
    for (const kind of new Set(row.effects.map((effect) => effect.kind))) facts.push(make("span", { class: "badge warn", text: `⚠ ${kind}` }));
    if (row.taken_back) facts.push(make("span", { class: "badge", text: "taken back" }));
    const go = make("button", { type: "button", class: "small", text: "Roll back to before this turn" });
    go.addEventListener("click", () => offerRollback(workspace, row.id));
    return make("li", { class: row.taken_back ? "back" : undefined },
      make("span", { class: "number", text: row.number }),
      make("div", { class: "what" },
        make("a", { href: `/w/${workspace}/c/${row.id}`, class: "subject", text: words.slice(0, 200) }),
        make("span", { class: "facts" }, make("time", { datetime: row.time }), ...facts)),
      go);
  });
  return make("ol", { class: "checkpoints" }, ...rows);
}
