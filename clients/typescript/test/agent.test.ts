/** An agent that uses the client: checkpoints, rollback, notices, and the ledger. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import {
  BlockedError,
  InvalidParamsError,
  OperationFailedError,
  PlanChangedError,
  ToolRefusedError,
  UnknownMethodError,
  decodePath,
  encodePath,
} from "../src/index.js";
import type { MethodName } from "../src/index.js";
import { Scratch } from "./support.js";

test("a turn is taken back with its messages, and the model is told", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  scratch.write("a", "mine\n");
  {
    await using session = await takeback.session({ agent: "mine", session: 1, model: "m" }).start();
    await session.startTurn("improve a");
    const result = await session.toolCall(
      { tool: "bash", input: { command: "echo better > a" }, call: "c1" },
      (call) => {
        assert.equal(call.report.checkpoints.length, 1);
        assert.deepEqual(call.warnings, []);
        scratch.write("a", "better\n");
        return 42;
      },
    );
    assert.equal(result, 42);
    assert.deepEqual(await session.append({ role: "assistant", content: "a is better" }), [2]);
    await session.recordUsage({ model: "m", input_tokens: 7 });
    await session.endTurn();

    const { plan, digest } = await takeback.rollbackPlan({ checkpoint: 1 });
    assert.deepEqual(plan.restored, ["a"]);
    const done = await takeback.rollbackApply({ checkpoint: 1, digest });
    assert.equal(done.undone_messages, 2);
    assert.equal(scratch.read("a"), "mine\n");
    assert.match((await session.takeNotice()) ?? "", /read this file again/);
    assert.equal(await session.takeNotice(), null);
  }
  const kept = await takeback.sessionsGet({ session: "mine:1" });
  assert.equal(kept.input_tokens, 7);
  assert.deepEqual(
    kept.messages.map((one) => one.content),
    ["improve a", "a is better"],
  );
  assert.ok(kept.messages.every((one) => one.undone));
  assert.deepEqual(
    kept.calls?.map((one) => one.outcome),
    ["ok"],
  );
  assert.notEqual(kept.ended_at, null);
});

test("an exception in a tool is reported as an error", async (t) => {
  const takeback = await new Scratch(t).connect();
  const session = takeback.session({ agent: "mine", session: "s" });
  const failing = () => {
    throw new RangeError("broken tool");
  };
  await assert.rejects(
    session.toolCall({ tool: "Write", input: { path: "a" } }, failing),
    RangeError,
  );
  await session.toolCall({ tool: "Write", input: { path: "a" } }, (call) => {
    call.outcome = "denied";
  });
  const { calls } = await takeback.sessionsGet({ session: session.id });
  assert.deepEqual(
    calls?.map((one) => one.outcome),
    ["error", "denied"],
  );
});

test("strict mode refuses a call that is not protected, and says why", async (t) => {
  const scratch = new Scratch(t);
  mkdirSync(join(scratch.base, ".takeback"), { mode: 0o700 });
  const settings = "[checkpoints]\nstrict = true\nmax_named_mb = 1\n";
  writeFileSync(join(scratch.base, ".takeback", "config.toml"), settings);
  writeFileSync(join(scratch.project, "model.bin"), randomBytes(12_000_000));
  const session = (await scratch.connect()).session({ agent: "mine", session: "s" });
  await session.startTurn("clean up");
  const input = { command: "rm model.bin" };
  const refused = session.toolCall({ tool: "bash", input }, () => assert.fail("it ran"));
  await assert.rejects(refused, /not fully protected: .*model.bin: .+/);
});

test("a call that would delete the history is refused and does not run", async (t) => {
  const takeback = await new Scratch(t).connect();
  const session = takeback.session({ agent: "mine", session: "s" });
  await session.startTurn("clean up");
  const input = { command: "takeback checkpoints clear --force" };
  const refused = session.toolCall({ tool: "bash", input }, () => assert.fail("it ran"));
  await assert.rejects(refused, (error) => {
    assert.ok(error instanceof ToolRefusedError);
    assert.match(error.message, /takeback refuses this call: it would/);
    return true;
  });
});

test("an outdated plan or a blocked one changes nothing", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  scratch.write("a", "1");
  await takeback.checkpointCreate({ reason: "by hand" });
  scratch.write("a", "2");
  const { digest } = await takeback.rollbackPlan({ checkpoint: 1 });
  scratch.write("a", "3");
  let now = "";
  await assert.rejects(takeback.rollbackApply({ checkpoint: 1, digest }), (error) => {
    assert.ok(error instanceof PlanChangedError);
    assert.match(error.hint ?? "", /nothing was changed/);
    now = error.now.digest;
    return true;
  });
  assert.equal(scratch.read("a"), "3");
  await takeback.rollbackApply({ checkpoint: 1, digest: now });
  assert.equal(scratch.read("a"), "1");

  rmSync(join(scratch.project, "a"));
  execFileSync("mkfifo", [join(scratch.project, "a")]);
  await assert.rejects(takeback.rollbackApply({ checkpoint: 1 }), (error) => {
    assert.ok(error instanceof BlockedError);
    assert.deepEqual(
      error.plan.blocked.map(({ path }) => path),
      ["a"],
    );
    return true;
  });
});

test("errors have types, causes and hints", async (t) => {
  const takeback = await new Scratch(t).connect();
  await assert.rejects(takeback.checkpointDiff({ checkpoint: 9 }), (error) => {
    assert.ok(error instanceof OperationFailedError);
    assert.deepEqual([error.code, error.name], [-32000, "OperationFailedError"]);
    return true;
  });
  await assert.rejects(takeback.sessionsList({ limit: 0 }), InvalidParamsError);
  await assert.rejects(takeback.call("no.such" as MethodName, {}), (error) => {
    assert.ok(error instanceof UnknownMethodError);
    assert.equal(error.hint, "`initialize` lists the methods");
    return true;
  });
  assert.equal((await takeback.initialize()).protocol, 1);
});

test("paths that are not UTF-8 arrive unchanged", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  const name = Buffer.from([0x63, 0x61, 0x66, 0xe9]);
  const path = Buffer.concat([Buffer.from(`${scratch.project}/`), name]);
  writeFileSync(path, "1");
  await takeback.checkpointCreate();
  writeFileSync(path, "2");
  const { restored } = await takeback.rollbackApply({ checkpoint: 1, paths: [encodePath(name)] });
  assert.deepEqual(restored.map(decodePath), [name]);
  assert.equal(readFileSync(path, "utf8"), "1");
  assert.equal(encodePath(Buffer.from("café")), "café");
});

test("another directory uses the same process", async (t) => {
  const scratch = new Scratch(t);
  const takeback = await scratch.connect();
  const other = join(scratch.base, "other");
  mkdirSync(other);
  const there = takeback.inDirectory("../other");
  await there.checkpointCreate({ reason: "there" });
  const listed = await takeback.inDirectory(other).checkpointList();
  assert.deepEqual([listed.workspace, listed.checkpoints.length], [other, 1]);
  assert.deepEqual((await takeback.checkpointList()).checkpoints, []);
  assert.equal(there.serverPid, takeback.serverPid);
});
