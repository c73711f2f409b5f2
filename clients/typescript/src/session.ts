/** A session of your agent: turns, tool calls, messages and notices. */

import { ToolRefusedError } from "./errors.js";
import type { Takeback } from "./client.js";
import type { Message, Name, Report, ReportParams, ToolParams, Usage } from "./types/index.js";

/** A tool call that is about to run. */
export interface ToolCall {
  /** takeback's answer: the checkpoints, and everything that it could not protect. */
  readonly report: Report;
  /** A description of everything that is not protected, to be shown to the user. */
  readonly warnings: readonly string[];
  /** The outcome to report: by default `ok`, or `error` after an exception. */
  outcome?: string;
}

/** A session of your agent, from `takeback.session`. Disposing of the session reports its end. */
export class AgentSession {
  readonly #takeback: Takeback;
  readonly #who: { agent: string; session: Name };
  readonly #reporter: ReportParams;

  constructor(
    takeback: Takeback,
    params: { agent: string; session: Name; model?: string; parent?: Name },
  ) {
    this.#takeback = takeback;
    this.#who = { agent: params.agent, session: params.session };
    this.#reporter = params;
  }

  /** The id of the session in the ledger, as the methods about sessions expect it. */
  get id(): string {
    return `${this.#who.agent}:${this.#who.session}`;
  }

  /** Reports that the session begins. */
  async start(): Promise<this> {
    await this.#takeback.sessionStart(this.#reporter);
    return this;
  }

  end(reason?: string): Promise<Report> {
    return this.#takeback.sessionEnd({ ...this.#reporter, ...(reason ? { reason } : {}) });
  }

  /** Begins a turn with the user's message. */
  startTurn(prompt: string): Promise<Report> {
    return this.#takeback.turnStart({ ...this.#reporter, prompt });
  }

  endTurn(): Promise<Report> {
    return this.#takeback.turnEnd(this.#reporter);
  }

  /**
   * Runs a tool call: takes the checkpoint, runs `run`, and reports the end of the call.
   *
   * If takeback refuses the call, throws a `ToolRefusedError` without running it.
   */
  async toolCall<T>(
    params: { tool: string; input: unknown; call?: Name },
    run: (call: ToolCall) => T | Promise<T>,
  ): Promise<T> {
    const reported: ToolParams = { ...this.#reporter, ...params };
    const report = await this.#takeback.toolBefore(reported);
    if (report.refused) throw new ToolRefusedError(report);
    const call: ToolCall = { report, warnings: listWarnings(report) };
    let result: T;
    try {
      result = await run(call);
    } catch (error) {
      // An error in the tool matters more than a failure to report the end of the call.
      await this.#reportEnd(reported, call, "error").catch(() => {});
      throw error;
    }
    await this.#reportEnd(reported, call, "ok");
    return result;
  }

  /** Appends messages of the agent to the ledger, and returns their numbers. */
  async append(...messages: Message[]): Promise<number[]> {
    return (await this.#takeback.messagesAppend({ ...this.#who, messages })).messages;
  }

  async recordUsage(usage: Usage): Promise<void> {
    await this.#takeback.usageRecord({ ...this.#who, usage });
  }

  /**
   * Returns the text that tells the model what a rollback changed, or null.
   *
   * Each notice is returned only once. Add it to the next message to the model.
   */
  async takeNotice(): Promise<string | null> {
    return (await this.#takeback.noticesTake(this.#who)).text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }

  async #reportEnd(params: ToolParams, call: ToolCall, outcome: string): Promise<void> {
    await this.#takeback.toolAfter({ ...params, outcome: call.outcome ?? outcome });
  }
}

function listWarnings(report: Report): string[] {
  const lost = report.unprotected.map(({ path, reason }) => `${path}: ${reason}`);
  const harm = report.tampering.map((clause) => `this call would ${clause}`);
  return [...report.failures, ...lost, ...harm];
}
