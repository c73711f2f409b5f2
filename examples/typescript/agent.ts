/**
 * A small agent with takeback built in: checkpoints, a ledger, a rollback, and a notice.
 *
 *     npm install takeback-client
 *     npx tsx examples/typescript/agent.ts
 *
 * The model is a script, and the project and takeback's home are in a scratch directory, so the
 * example runs anywhere. To build your own agent, replace only `ScriptedModel` and `main`.
 */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Takeback, ToolRefusedError } from "takeback-client";
import type { AgentSession, Message } from "takeback-client";

type ToolCalls = { id: string; function: { name: string; arguments: string } }[];

/** A model that answers each prompt with one shell command, and then with a sentence. */
class ScriptedModel {
  constructor(private readonly commands: Record<string, string>) {}

  answer(messages: Message[]): Message {
    const last = messages.at(-1);
    if (last?.role === "tool") return { role: "assistant", content: "Done." };
    const isAsked = (prompt: string) => String(last?.content).endsWith(prompt);
    const [, command] = Object.entries(this.commands).find(([prompt]) => isAsked(prompt)) ?? [];
    const call = { name: "bash", arguments: JSON.stringify({ command }) };
    return { role: "assistant", tool_calls: [{ id: "call-1", function: call }] };
  }
}

/** A loop: ask the model, run the tool that it calls, tell it the result. */
class Agent {
  messages: Message[] = [];

  constructor(
    private readonly model: ScriptedModel,
    private readonly session: AgentSession,
    private readonly directory: string,
  ) {}

  /** Works on a prompt, and returns the model's last answer. */
  async prompt(text: string): Promise<Message> {
    await this.session.startTurn(text);
    // After a rollback, the model must know that its picture of the files is out of date.
    const notice = await this.session.takeNotice();
    this.messages.push({ role: "user", content: notice ? `${notice}\n\n${text}` : text });
    for (;;) {
      const answer = this.model.answer(this.messages);
      await this.remember(answer);
      if (!answer.tool_calls) {
        await this.session.endTurn();
        return answer;
      }
      for (const { id, function: call } of answer.tool_calls as ToolCalls) {
        const content = await this.runTool(id, JSON.parse(call.arguments) as { command: string });
        await this.remember({ role: "tool", tool_call_id: id, content });
      }
    }
  }

  /** Adds a message to the conversation and to takeback's ledger. */
  private async remember(message: Message): Promise<void> {
    this.messages.push(message);
    await this.session.append(message);
  }

  /** Runs a shell command after takeback has taken a checkpoint. */
  private async runTool(id: string, input: { command: string }): Promise<string> {
    try {
      return await this.session.toolCall({ tool: "bash", input, call: id }, (call) => {
        for (const warning of call.warnings) console.log("  takeback:", warning);
        console.log("  $", input.command);
        const options = { shell: true, cwd: this.directory, encoding: "utf8" } as const;
        const done = spawnSync(input.command, options);
        call.outcome = done.status === 0 ? "ok" : "error";
        return done.stdout + done.stderr;
      });
    } catch (error) {
      if (error instanceof ToolRefusedError) return error.message;
      throw error;
    }
  }
}

async function main(): Promise<void> {
  const scratch = mkdtempSync(join(tmpdir(), "agent-"));
  const project = join(scratch, "shop");
  mkdirSync(project);
  writeFileSync(join(project, "cart.js"), "let total = 0;\n");
  {
    const program = process.env["TAKEBACK"] ?? "takeback";
    const home = join(scratch, "home");
    await using takeback = await Takeback.start({ directory: project, program, home });
    await using session = await takeback.session({ agent: "example", session: 1 }).start();
    await work(takeback, session, project);
  }
  try {
    rmSync(scratch, { recursive: true, force: true });
  } catch {
    // takeback may still be merging files in the background.
  }
}

async function work(takeback: Takeback, session: AgentSession, project: string): Promise<void> {
  const file = join(project, "cart.js");
  const clear = "takeback checkpoints clear --yes";
  const model = new ScriptedModel({ "tidy up": "rm cart.js", "clear the history": clear });
  const agent = new Agent(model, session, project);
  console.log("> tidy up\n ", (await agent.prompt("tidy up")).content);
  assert.ok(!existsSync(file));

  const { plan, digest } = await takeback.rollbackPlan({ checkpoint: 1 });
  console.log("A rollback would restore", plan.restored);
  await takeback.rollbackApply({ checkpoint: 1, digest });
  assert.equal(readFileSync(file, "utf8"), "let total = 0;\n");

  agent.messages = []; // The turn was taken back, so the model must not see it any more.
  console.log("> clear the history\n ", (await agent.prompt("clear the history")).content);
  assert.match(String(agent.messages[0]?.content), /cart\.js/);
  assert.match(String(agent.messages[2]?.content), /takeback refuses this call/);

  const { messages } = await takeback.sessionsGet({ session: session.id });
  const undone = messages.filter((message) => message.undone).length;
  console.log(`The ledger has ${messages.length} messages; ${undone} taken back`);
}

await main();
