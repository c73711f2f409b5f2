/** The connection: starting, timeouts, the death of the process, concurrent requests. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import {
  ClosedError,
  InvalidRequestError,
  ProtocolError,
  RequestTimeoutError,
  RequestTooLongError,
  ServerDiedError,
  StartError,
  Takeback,
} from "../src/index.js";
import { PROGRAM, Scratch } from "./support.js";

/** A short timeout, because the tests below wait until it expires. */
const SHORT = 200;

/** Asserts that a request times out, and that the error reports the expected `wasSent`. */
async function assertTimeout(request: Promise<unknown>, wasSent: boolean): Promise<void> {
  await assert.rejects(request, (error) => {
    assert.ok(error instanceof RequestTimeoutError, String(error));
    assert.equal(error.wasSent, wasSent);
    return true;
  });
}

test("a missing directory is named", async () => {
  const start = Takeback.start({ program: PROGRAM, directory: "nowhere" });
  await assert.rejects(start, /StartError: there is no directory nowhere/);
});

test("a missing program is named with a hint", async () => {
  await assert.rejects(Takeback.start({ program: "no-such-program" }), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(error.message, /cannot run no-such-program/);
    assert.match(error.hint ?? "", /install takeback/);
    return true;
  });
});

test("a program that is not takeback is refused", async (t) => {
  const scratch = new Scratch(t);
  const start = (behavior: string) => scratch.connectFake(behavior);
  await assert.rejects(start("speak nonsense"), /cannot start takeback rpc: .*got hello/);
  await assert.rejects(start("speak protocol 2"), /but this client speaks protocol 1/);
  await assert.rejects(start("die at once"), /ended with exit code 1 .*: no such option/);
  await assert.rejects(scratch.connectFake("stay silent", { timeout: SHORT }), (error) => {
    assert.ok(error instanceof RequestTimeoutError || error instanceof StartError, String(error));
    return true;
  });
});

test("the home can be chosen", async (t) => {
  const scratch = new Scratch(t);
  const home = join(scratch.base, "h");
  const takeback = await scratch.connect({ program: PROGRAM, home });
  assert.equal((await takeback.initialize()).home, home);
});

test("a request fails if the process dies, and is never sent again", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connectFake("die");
  // The second request waits for the first, so it has not been sent when the process dies.
  const [first, second] = await Promise.allSettled([takeback.rollbackUndo(), takeback.status()]);
  assert.ok(first.status === "rejected" && first.reason instanceof ServerDiedError);
  assert.equal(first.reason.exitCode, 3);
  assert.deepEqual(first.reason.warnings, ["the disk is on fire"]);
  assert.ok(second.status === "rejected" && second.reason instanceof ServerDiedError);
  const expected = ["initialize", "rollback.undo", "initialize", "status"];
  assert.deepEqual(scratch.received().slice(-4), expected);
});

test("a process that died while idle is replaced", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  scratch.write("a", "1");
  await takeback.checkpointCreate();
  const first = takeback.serverPid;
  assert.ok(first);
  process.kill(first, "SIGKILL");
  // The signal may take effect only after the next request has been sent.
  while (takeback.serverPid === first) {
    await takeback.checkpointList().catch((error: unknown) => {
      assert.ok(error instanceof ServerDiedError);
      assert.equal(error.signal, "SIGKILL");
    });
  }
  assert.equal((await takeback.checkpointList()).checkpoints.length, 1);
});

test("answers to other requests are refused", async (t) => {
  const takeback = await new Scratch(t).connectFake("answer another request");
  await assert.rejects(takeback.status(), ProtocolError);
});

test("an answer without id belongs to the request", async (t) => {
  const takeback = await new Scratch(t).connectFake("answer with id null");
  await assert.rejects(takeback.status(), InvalidRequestError);
});

test("a late answer is not mistaken for the answer to the next request", async (t) => {
  const takeback = await new Scratch(t).connect();
  const pid = takeback.serverPid;
  assert.ok(pid);
  process.kill(pid, "SIGSTOP");
  try {
    const hasty = takeback.withTimeout(SHORT);
    await assertTimeout(hasty.checkpointCreate({ reason: "late" }), true);
    await assertTimeout(hasty.checkpointCreate({ reason: "never" }), false);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  const { checkpoints } = await takeback.checkpointList();
  assert.deepEqual(
    checkpoints.map((row) => row.reason),
    ["late"],
  );
  assert.equal(takeback.serverPid, pid);
});

test("requests that are too long are not sent", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connectFake("answer");
  await assert.rejects(takeback.explain({ command: "x".repeat(300) }), RequestTooLongError);
  await takeback.status();
  assert.deepEqual(scratch.received().slice(-2), ["initialize", "status"]);
});

test("concurrent requests get their own answers", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  const numbers = Array.from({ length: 80 }, (_, number) => number);
  const ask = async (number: number) =>
    (await takeback.explain({ command: `echo > file-${number}` })).paths;
  const answers = await Promise.all(numbers.map(ask));
  assert.deepEqual(
    answers,
    numbers.map((number) => [join(scratch.project, `file-${number}`)]),
  );
});

test("large requests and answers arrive whole", async (t) => {
  const takeback = await new Scratch(t).connect();
  const content = "é".repeat(300_000);
  await takeback.session({ agent: "mine", session: "s" }).append({ role: "assistant", content });
  const kept = await takeback.sessionsGet({ session: "mine:s" });
  assert.equal(kept.messages[0]?.content, content);
});

test("a closed client says so, and its process has ended", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  const pid = takeback.serverPid;
  assert.ok(pid);
  const answered = takeback.status();
  const unsent = takeback.status();
  const [, first, second] = await Promise.allSettled([takeback.close(), answered, unsent]);
  assert.equal(first.status, "fulfilled");
  assert.ok(second.status === "rejected" && second.reason instanceof ClosedError);
  await takeback.close();
  assert.throws(() => process.kill(pid, 0));
  await assert.rejects(takeback.status(), ClosedError);
});

test("a client that is not closed does not keep Node running", async (t) => {
  const scratch = new Scratch(t);
  const index = fileURLToPath(new URL("../src/index.js", import.meta.url));
  const script = `
    import { Takeback } from ${JSON.stringify(index)};
    const takeback = await Takeback.start({ program: ${JSON.stringify(PROGRAM)} });
    console.log((await takeback.initialize()).protocol);`;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: scratch.project,
    env: { HOME: scratch.base, PATH: process.env["PATH"] },
    timeout: 60_000,
  });
  assert.equal(output.toString(), "1\n");
});

test("takeback survives Ctrl-C in the terminal of the agent", async (t) => {
  if (!existsSync("/proc/self/stat")) return t.skip("there is no /proc");
  const takeback = await new Scratch(t).connect();
  const group = (pid: number | string) =>
    readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[2];
  assert.notEqual(group(takeback.serverPid ?? 0), group("self"));
});
