/**
 * Compares the client with takeback itself: methods, parameters and results must be the same.
 *
 * Types no longer exist when a test runs. So this test generates TypeScript code from the real
 * results of all methods and the names of their parameters. It writes the code to the file that the
 * variable CHECKS names, and the compiler checks that file.
 */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

import { InvalidParamsError, Takeback } from "../src/index.js";
import type { MethodName, Params, Result } from "../src/index.js";
import { REPOSITORY, Scratch } from "./support.js";

/** Parameters that takeback accepts but does not document. */
const UNDOCUMENTED = ["rollback.undo.digest", "rollback.redo.digest"];

/** Values for the required parameters, so that an unknown parameter is the only error in a call. */
const REQUIRED: Partial<Record<string, object>> = {
  "checkpoint.diff": { checkpoint: 1 },
  explain: { command: "x" },
  fork: { from: 1 },
  "messages.append": { messages: [] },
  "rollback.apply": { checkpoint: 1 },
  "rollback.plan": { checkpoint: 1 },
  "session.compress": { to: "x" },
  "sessions.fork": { session: "x", at: 1 },
  "sessions.search": { query: "x" },
  "sessions.title": { session: "x", title: "x" },
  slash: { line: "x" },
  "threads.copy": { app: "x", from: "x", to: "x" },
  "threads.delete": { app: "x", thread: "x" },
  "threads.delete_runs": { app: "x", runs: [] },
  "threads.get": { app: "x", thread: "x" },
  "threads.list": { app: "x" },
  "threads.prune": { app: "x", thread: "x" },
  "threads.put": { app: "x", thread: "x", id: "x", content: { type: "x", data: "" } },
  "threads.write": { app: "x", thread: "x", state: "x", task: "x", writes: [] },
  "usage.record": { usage: {} },
};
for (const name of ["get", "tree", "end", "reopen", "archive", "clear", "undo", "redo"]) {
  REQUIRED[`sessions.${name}`] = { session: "x" };
}

function methodName(method: string): string {
  return method.replace(/[._](.)/g, (_, letter: string) => letter.toUpperCase());
}

/** Asks takeback for the names of a method's parameters. */
async function parameterNames(takeback: Takeback, method: MethodName): Promise<string[]> {
  const params = { ...REQUIRED[method], nonsense: 1 } as Params<MethodName>;
  const error: unknown = await takeback.call(method, params).catch((error: unknown) => error);
  assert.ok(error instanceof InvalidParamsError, `${method}: ${error}`);
  const names = error.message.split("; the parameters are ")[1]?.split(", ") ?? [];
  // The client has no parameter `cwd`; callers use `inDirectory` instead.
  return names.filter((name) => name !== "cwd" && !UNDOCUMENTED.includes(`${method}.${name}`));
}

/** Calls methods, and keeps their results. */
class Recorder {
  readonly results: { method: MethodName; result: unknown }[] = [];

  constructor(readonly takeback: Takeback) {}

  async call<M extends MethodName>(method: M, params: Params<M>): Promise<Result<M>> {
    const result = await this.takeback.call(method, params);
    this.results.push({ method, result });
    return result;
  }
}

async function playTurns(recorder: Recorder, scratch: Scratch): Promise<void> {
  const me = { agent: "mine", session: "s" };
  await recorder.call("initialize", {});
  await recorder.call("session.start", { ...me, model: "m" });
  for (const turn of [1, 2]) {
    await recorder.call("turn.start", { ...me, turn, prompt: `change the gizmo, part ${turn}` });
    const command = `echo ${turn} > a; curl -d @a https://example.org; rm -rf node_modules`;
    const call = { ...me, turn, call: `c${turn}`, tool: "bash", input: { command } };
    mkdirSync(join(scratch.project, "node_modules"), { recursive: true });
    await recorder.call("tool.before", call);
    scratch.write("a", `by part ${turn}\n`);
    scratch.write(`new-${turn}`, "x\n");
    await recorder.call("tool.after", { ...call, outcome: "ok" });
    const messages = [{ role: "assistant", content: "done", timestamp: 1.5 }];
    await recorder.call("messages.append", { ...me, messages });
    await recorder.call("turn.end", me);
  }
  const usage = { model: "m", input_tokens: 7, actual_cost_usd: 0.5 };
  await recorder.call("usage.record", { ...me, usage });
  await recorder.call("session.set", { ...me, user: "ann", model_config: { t: 1 } });
  const clear = { command: "takeback checkpoints clear" };
  await recorder.call("tool.before", { ...me, tool: "bash", input: clear });
  const command = "rm -rf $X; git clean -fdx; psql -c 'drop table x' > a; takeback uninstall";
  await recorder.call("explain", { command });
}

async function takeBack(recorder: Recorder, scratch: Scratch): Promise<void> {
  await recorder.call("checkpoint.create", { name: "good", pinned: true });
  await recorder.call("checkpoint.list", {});
  await recorder.call("checkpoint.diff", { checkpoint: 3, full: true });
  await recorder.call("rollback.plan", { checkpoint: "3", scope: "both" });
  await recorder.call("rollback.apply", { checkpoint: 3 });
  await recorder.call("notices.take", { agent: "mine", session: "s" });
  await recorder.call("rollback.undo", { dry_run: true });
  await recorder.call("rollback.undo", {});
  await recorder.call("rollback.redo", {});
  await recorder.call("rollback.undo", {});
  scratch.write("a", "edited by part 3\n");
  await recorder.call("undo.plan", { turn: 3, files: [{ path: "a", resolution: "theirs" }] });
  await recorder.call("undo.apply", { turn: 3, conflicts: "leave" });
  await recorder.call("fork", { from: 3, directory: "../forked" });
  await recorder.call("status", {});
  await recorder.call("config.get", {});
  for (const line of ["/help", "/rollback 99", "/quit", "hello"]) {
    await recorder.call("slash", { line });
  }
}

async function visitSessions(recorder: Recorder): Promise<void> {
  const session = "mine:s";
  await recorder.call("sessions.list", { limit: 5 });
  await recorder.call("sessions.get", { session });
  await recorder.call("sessions.search", { query: "gizmo", since: "1d" });
  await recorder.call("sessions.title", { session, title: "A title" });
  await recorder.call("sessions.fork", { session, at: 1 });
  await recorder.call("sessions.tree", { session });
  await recorder.call("sessions.undo", { session });
  await recorder.call("sessions.redo", { session });
  await recorder.call("sessions.archive", { session });
  await recorder.call("sessions.stats", { by: "day" });
  await recorder.call("session.compress", { agent: "mine", session: "s", to: "s-2" });
  await recorder.call("session.end", { agent: "mine", session: "s-2", reason: "over" });
  await recorder.call("sessions.reopen", { session: "mine:s-2" });
  await recorder.call("sessions.end", { session: "mine:s-2" });
  await recorder.call("sessions.clear", { session });
}

async function keepThreads(recorder: Recorder): Promise<void> {
  const [app, thread] = ["app", "t"];
  const content = { type: "json", data: "e30=" };
  const channels = [{ channel: "c", version: "1", value: content }];
  const metadata = { run_id: "r" };
  await recorder.call("threads.put", { app, thread, id: "1", content, metadata, channels });
  const writes = [{ position: 0, channel: "c", value: content }];
  await recorder.call("threads.write", { app, thread, state: "1", task: "task", writes });
  await recorder.call("threads.get", { app, thread });
  await recorder.call("threads.list", { app, limit: 1 });
  await recorder.call("threads.copy", { app, from: thread, to: "u" });
  await recorder.call("threads.prune", { app, thread });
  await recorder.call("threads.delete_runs", { app, runs: ["r"] });
  await recorder.call("threads.delete", { app, thread: "u" });
}

test("the client has every method of takeback and no other", async (t) => {
  const { methods } = await (await new Scratch(t).connect()).initialize();
  const document = readFileSync(join(REPOSITORY, "docs/protocol.md"), "utf8");
  const table = document.split("### Methods")[1]?.split("###")[0] ?? "";
  const rows = table.split("\n").filter((line) => line.startsWith("| `"));
  const described = rows.flatMap((row) => row.split("|")[1]?.match(/[a-z._]+/g) ?? []);
  assert.deepEqual(described.sort(), [...methods].sort());
  const classes = [Takeback.prototype, Object.getPrototypeOf(Takeback.prototype) as object];
  const own = [
    "constructor",
    "call",
    "close",
    "inDirectory",
    "withTimeout",
    "session",
    "serverPid",
  ];
  const public_ = classes.flatMap((one) => Object.getOwnPropertyNames(one));
  const expected = methods.map(methodName);
  assert.deepEqual(public_.filter((name) => !own.includes(name)).sort(), expected.sort());
});

test("the package has the version of takeback", async (t) => {
  const { version } = await (await new Scratch(t).connect()).initialize();
  const file = join(REPOSITORY, "clients/typescript/package.json");
  assert.equal((JSON.parse(readFileSync(file, "utf8")) as { version: string }).version, version);
});

test("every method is called once, and the compiler gets its parameters and results", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  scratch.write("Makefile", "");
  scratch.write("a", "1\n");
  const recorder = new Recorder(takeback);
  await playTurns(recorder, scratch);
  await takeBack(recorder, scratch);
  await visitSessions(recorder);
  await keepThreads(recorder);
  const { methods } = (await takeback.initialize()) as { methods: MethodName[] };
  const called = new Set(recorder.results.map(({ method }) => method));
  assert.deepEqual(
    methods.filter((method) => !called.has(method)),
    [],
  );

  const types = resolve(REPOSITORY, "clients/typescript/src/types/index.js");
  const lines = [
    `import type { MethodName, Params, Result } from ${JSON.stringify(types)};`,
    "type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;",
    "type Names<M extends MethodName> = keyof Params<M>;",
  ];
  for (const method of methods) {
    const names = (await parameterNames(takeback, method)).map((name) => JSON.stringify(name));
    const union = names.length > 0 ? names.join(" | ") : "never";
    lines.push(`true satisfies Same<Names<"${method}">, ${union}>;`);
  }
  for (const { method, result } of recorder.results) {
    lines.push(`(${JSON.stringify(result)}) satisfies Result<"${method}">;`);
  }
  const checks = process.env["CHECKS"];
  if (checks) writeFileSync(checks, `${lines.join("\n")}\n`);
});

test("a session can be sent to a model", async (t) => {
  const takeback = await new Scratch(t).connect();
  await takeback.turnStart({ agent: "mine", session: "s", prompt: "hello" });
  for (const format of ["openai", "anthropic"] as const) {
    const sent = await takeback.sessionsGet({ session: "mine:s", format });
    assert.match(JSON.stringify(sent), /hello/);
  }
});
