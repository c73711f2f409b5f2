// Conversations with takeback's own agent: prompts, commands, questions, and the event stream.

import { Problem, fetchPart, get, make, post, showProblem, toast, updateTimes } from "./page.js";
import { LiveTurn } from "./turn.js";

const EVENTS = [
  "turn_started", "text", "html", "reasoning", "call_started", "call_output", "call_ended", "question", "answered",
  "retrying", "continuing", "failed_over", "compressed", "warning", "turn_ended", "idle", "slash", "session",
  "changed", "stopping", "ready", "gap",
];

/** The time after which a lost stream is opened again, in milliseconds. */
const RETRY = 1000;

export function startChat() {
  const root = document.querySelector("[data-chat]");
  if (!root) return;
  const chat = new Chat(root);
  chat.start();
}

class Chat {
  constructor(root) {
    this.root = root;
    this.session = root.dataset.session;
    this.workspace = root.dataset.newWorkspace;
    this.form = root.querySelector("form.composer");
    this.live = new LiveTurn(root.querySelector("#live"), {
      answer: (question, answer, reason) => this.answer(question, answer, reason),
    });
    this.lastEvent = null;
    this.isBusy = false;
  }

  get path() {
    return `chats/${encodeURIComponent(this.session)}`;
  }

  start() {
    if (this.form) this.startComposer();
    this.root.addEventListener("click", (event) => this.click(event));
    if (!this.session) return;
    this.load().then(() => this.listen());
    addEventListener("pagehide", () => this.stream?.close());
  }

  /** Fetches the state of the conversation from the server, and shows it. */
  async load() {
    try {
      const state = await get(this.path);
      this.lastEvent = state.last_event;
      this.setBusy(state.state === "running", state.stopping);
      const shown = this.root.querySelector("#history");
      if (Number(shown.dataset.base) !== state.base) await this.refresh();
      this.keepPlace(() => {
        this.live.reset(state.live);
        if (!this.isBusy && state.last_end) this.showEnd(state.last_end);
      });
    } catch (error) {
      showProblem(error);
    }
  }

  /** Follows the conversation. When the browser reconnects, it tells the server which event it received last. */
  listen() {
    const after = this.lastEvent === null ? "" : `?after=${this.lastEvent}`;
    const stream = (this.stream = new EventSource(`/api/v1/${this.path}/events${after}`));
    for (const name of EVENTS) {
      stream.addEventListener(name, (event) => {
        this.lastEvent = Number(event.lastEventId);
        this.receive(name, JSON.parse(event.data));
      });
    }
    stream.addEventListener("error", () => {
      this.root.querySelector("#connection")?.removeAttribute("hidden");
      // If the server refused the request, the browser does not reconnect by itself.
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => this.listen(), RETRY);
    });
  }

  receive(name, data) {
    switch (name) {
      case "ready":
        this.root.querySelector("#connection")?.setAttribute("hidden", "");
        return;
      case "gap":
        this.load();
        return;
      case "session":
        this.session = data.session;
        history.replaceState(null, "", `/chat/${encodeURIComponent(data.session)}`);
        this.refresh();
        return;
      case "changed":
        this.refresh();
        return;
      case "stopping":
        this.setBusy(true, true);
        return;
      case "turn_started":
        this.setBusy(true);
        // Answers to commands stay until the next turn.
        this.live.reset([]);
        break;
      case "turn_ended":
        this.endTurn(data);
        return;
      case "idle":
        this.becomeIdle(data);
        return;
    }
    this.keepPlace(() => this.live.add(name, data));
  }

  /** Replaces the live entries with the messages in the ledger, because the turn has ended. */
  async endTurn(data) {
    const old = this.live.close();
    await this.refresh();
    this.keepPlace(() => {
      old.forEach((node) => node.remove());
      if (data.outcome !== "complete") this.showEnd(data);
    });
  }

  becomeIdle(data) {
    this.setBusy(false);
    if (data.session) this.session = data.session;
    if (data.problem || data.note) this.keepPlace(() => this.showEnd(data));
    this.refreshSide();
  }

  showEnd({ outcome, because, problem, note }) {
    const words = {
      partial: `The answer is incomplete: ${because}`,
      failed: `The turn failed: ${because}`,
      cancelled: "Stopped.",
      blocked: `The turn is waiting for you: ${because}`,
    };
    const text = problem ? describe(problem) : (note ?? words[outcome]);
    if (text) this.live.add("ended", { words: text, bad: Boolean(problem) || outcome !== "cancelled" });
  }

  /** Fetches the messages and the facts beside them again. */
  async refresh() {
    this.refreshSide();
    try {
      const part = await fetchPart(`/chat/${encodeURIComponent(this.session)}?part=messages`);
      this.keepPlace(() => this.root.querySelector("#history").replaceWith(part));
    } catch (error) {
      showProblem(error);
    }
  }

  async refreshSide() {
    try {
      const part = await fetchPart(`/chat/${encodeURIComponent(this.session)}?part=side`);
      updateTimes(part);
      this.root.querySelector(".chat-side").replaceWith(part);
    } catch {
      // The next event brings the facts up to date.
    }
  }

  /** Changes the page. A page scrolled to its end stays there; otherwise, nothing moves. */
  keepPlace(change) {
    const view = document.scrollingElement;
    const isAtEnd = view.scrollTop + view.clientHeight > view.scrollHeight - 80;
    change();
    if (isAtEnd) view.scrollTop = view.scrollHeight;
  }

  setBusy(isBusy, isStopping = false) {
    this.isBusy = isBusy;
    if (!this.form) return;
    this.form.toggleAttribute("data-busy", isBusy);
    const stop = this.form.querySelector("[data-stop]");
    // When the turn ends, the stop button is hidden. If it had the focus, the focus moves to the
    // field.
    const hadFocus = document.activeElement === stop;
    stop.disabled = isStopping;
    stop.textContent = isStopping ? "Stopping…" : "Stop";
    if (!isBusy && hadFocus) this.field.focus();
  }

  async answer(question, answer, reason) {
    try {
      await post(`${this.path}/answers`, { question, answer, reason });
      this.field?.focus();
    } catch (error) {
      showProblem(error);
    }
  }

  startComposer() {
    this.field = this.form.elements.prompt;
    this.commands = this.form.querySelector("#commands");
    const key = `draft ${this.session ?? ""}`;
    this.field.value = sessionStorage.getItem(key) ?? "";
    this.field.addEventListener("input", () => {
      sessionStorage.setItem(key, this.field.value);
      this.fit();
      this.suggest();
    });
    this.field.addEventListener("keydown", (event) => this.typed(event));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.fit();
    this.field.focus({ preventScroll: true });
    document.scrollingElement.scrollTop = this.session ? document.scrollingElement.scrollHeight : 0;
  }

  fit() {
    this.field.rows = Math.min(12, this.field.value.split("\n").length);
  }

  setText(text) {
    this.field.value = text;
    this.field.dispatchEvent(new Event("input"));
  }

  typed(event) {
    const first = this.commands.hidden ? null : this.commands.querySelector("li:not([hidden]) button");
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.send();
    } else if (event.key === "Tab" && !event.shiftKey && first) {
      event.preventDefault();
      this.setText(`/${first.dataset.command} `);
    } else if (event.key === "Escape") {
      // Moves the focus from the field to the question that is waiting.
      const question = this.root.querySelector(".question button");
      if (!this.commands.hidden) this.commands.hidden = true;
      else if (question) question.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** Lists the commands that begin with the text. */
  suggest() {
    const typed = /^\/([a-z]*)$/.exec(this.field.value)?.[1];
    let found = 0;
    for (const item of this.commands.children) {
      const isIt = typed !== undefined && item.firstElementChild.dataset.command.startsWith(typed);
      item.hidden = !isIt;
      if (isIt) found += 1;
    }
    this.commands.hidden = found === 0;
  }

  async send() {
    const text = this.field.value.trim();
    if (!text || this.isSending) return;
    this.isSending = true;
    try {
      const isDone = text.startsWith("/") ? await this.command(text) : false;
      if (!isDone) await this.prompt(text);
      this.setText("");
    } catch (error) {
      // The text stays in the field.
      showProblem(error);
    } finally {
      this.isSending = false;
    }
  }

  async prompt(prompt) {
    if (this.session) {
      await post(`${this.path}/turns`, { prompt });
      return;
    }
    const started = await post("chats", { prompt, workspace: this.workspace, model: this.model });
    this.setText("");
    location.assign(`/chat/${encodeURIComponent(started.session)}`);
  }

  /** Runs a command. Returns false if the line is a prompt. */
  async command(line) {
    const answer = await post("slash", { line, session: this.session, workspace: this.workspace });
    if (!answer.is_command) return false;
    if (answer.quit || answer.session) {
      this.setText("");
      location.assign(answer.quit ? "/chat" : `/chat/${encodeURIComponent(answer.session)}`);
      return true;
    }
    if (!this.session) {
      this.model = answer.data?.model ?? this.model;
      this.keepPlace(() => this.live.add("slash", { line, ...answer }));
    }
    return true;
  }

  click(event) {
    const target = event.target.closest("button");
    if (!target) return;
    const { dataset } = target;
    if (dataset.command) {
      this.setText(`/${dataset.command} `);
      this.field.focus();
    } else if (dataset.stop !== undefined) {
      this.act(`${this.path}/stop`);
    } else if (dataset.resume !== undefined) {
      this.act(`${this.path}/resume`);
    } else if (dataset.taskResume) {
      this.act(`tasks/${dataset.taskResume}/resume`, true);
    } else if (dataset.taskCancel) {
      this.act(`tasks/${dataset.taskCancel}/cancel`).then(() => location.reload());
    } else if (dataset.goalAction) {
      const goal = target.closest("[data-goal]").dataset.goal;
      this.act(`goals/${goal}/${dataset.goalAction}`, dataset.goalAction === "resume" && !this.session).then(() => {
        if (this.session) this.refreshSide();
        else location.reload();
      });
    } else if (dataset.fork) {
      this.fork(dataset.fork);
    } else if (dataset.rewind) {
      offerRewind(this.session, Number(dataset.rewind), () => this.refresh());
    }
  }

  /** Sends a request without data, and opens the conversation that it starts. */
  async act(path, opens = false) {
    try {
      const answer = await post(path, {});
      if (opens) location.assign(`/chat/${encodeURIComponent(answer.session)}`);
    } catch (error) {
      showProblem(error);
    }
  }

  async fork(session) {
    try {
      const answer = await post("slash", { line: `/fork ${session}@now`, session });
      if (answer.failed) throw new Problem({ title: answer.text });
      location.assign(`/chat/${encodeURIComponent(answer.session)}`);
    } catch (error) {
      showProblem(error);
    }
  }
}

function describe({ title, causes = [], hint }) {
  const text = [title, ...causes].join(": ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.${hint ? ` Hint: ${hint}.` : ""}`;
}

/** Asks the user what to take back, and returns to the moment before a prompt. */
function offerRewind(session, message, done) {
  const dialog = document.getElementById("confirm");
  const scopes = [
    ["both", "The conversation and the files"],
    ["conversation", "Only the conversation"],
    ["files", "Only the files"],
  ];
  const options = scopes.map(([scope, words], index) =>
    make("label", {}, make("input", { type: "radio", name: "scope", value: scope, checked: index === 0 }), words));
  const keep = make("button", { type: "button", class: "safe", text: "Keep everything as it is", autofocus: true });
  const go = make("button", { type: "button", class: "danger", text: "Return to before this prompt" });
  keep.addEventListener("click", () => dialog.close());
  go.addEventListener("click", async () => {
    const scope = dialog.querySelector("input[name=scope]:checked").value;
    dialog.close();
    try {
      const answer = await post(`sessions/${encodeURIComponent(session)}/rewind`, { message, scope });
      const files = answer.files ? answer.files.restored.length + answer.files.deleted.length : 0;
      toast(`Done: took back ${answer.taken_back} messages, changed ${files} files.`);
      done();
    } catch (error) {
      showProblem(error);
    }
  });
  dialog.replaceChildren(
    make("h2", { id: "confirm-title", text: "Return to before this prompt?" }),
    make("div", { class: "body" },
      make("p", { text: "Will be taken back, from this prompt on:" }),
      make("fieldset", { class: "choices" }, ...options),
      make("p", { class: "faint", text: "Nothing is deleted: messages stay in the session, and the current files are saved first. /rollback undo restores the files, and takeback sessions unrewind restores the messages." })),
    make("div", { class: "buttons" }, keep, go),
  );
  dialog.showModal();
  keep.focus();
}
