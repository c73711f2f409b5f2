/** One running `takeback rpc`, and its pipes. */

import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

import { ProtocolError, ServerDiedError, StartError } from "./errors.js";
import type { AnswerError } from "./errors.js";

/** The maximum number of lines from standard error that an error shows. */
const SHOWN_WARNINGS = 5;

export interface StartOptions {
  program: string;
  arguments: string[];
  directory: string | undefined;
  environment: Record<string, string | undefined> | undefined;
  onWarning: (line: string) => void;
}

/** An answer from takeback. */
export interface Answer {
  id: number | null;
  result?: unknown;
  error?: AnswerError;
}

/** The request that takeback will answer next. */
interface Awaited {
  id: number;
  method: string;
  resolve: (answer: Answer) => void;
  reject: (error: Error) => void;
}

/** A running `takeback rpc`, which answers one request at a time. */
export class ServerProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #closed: Promise<void>;
  readonly #warnings: string[] = [];
  #awaited: Awaited | undefined;
  /** The beginning of a line whose end has not arrived. */
  #partial: Buffer[] = [];
  /** Builds the error for a request that cannot be answered; undefined while the process works. */
  #failure: ((method: string) => Error) | undefined;

  constructor(options: StartOptions) {
    if (options.directory !== undefined && !existsSync(options.directory)) {
      throw new StartError(`there is no directory ${options.directory}`);
    }
    this.#child = spawn(options.program, options.arguments, {
      cwd: options.directory,
      env: options.environment,
      stdio: ["pipe", "pipe", "pipe"],
      // Ctrl-C in the agent's terminal must not stop takeback.
      detached: true,
    });
    this.#closed = new Promise((resolve) => {
      this.#child.once("close", (code, signal) => {
        this.#fail((method) => new ServerDiedError(method, code, signal, this.#warnings));
        resolve();
      });
      this.#child.once("error", (error) => {
        const hint = "install takeback, or pass its path as `program`";
        const message = `cannot run ${options.program}: ${error.message}`;
        this.#fail(() => new StartError(message, hint, { cause: error }));
        resolve();
      });
    });
    // Ignore this error: the process has exited, and its exit code says more.
    this.#child.stdin.on("error", () => {});
    this.#child.stdout.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#child.stdout.on("error", () => {});
    createInterface(this.#child.stderr).on("line", (line) => {
      this.#warnings.push(line);
      this.#warnings.splice(0, this.#warnings.length - SHOWN_WARNINGS);
      options.onWarning(line);
    });
    this.#setActive(false);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  hasEnded(): boolean {
    const { exitCode, signalCode } = this.#child;
    return this.#failure !== undefined || exitCode !== null || signalCode !== null;
  }

  /** Sends a request and returns the answer. Only one request may be in progress at a time. */
  exchange(id: number, method: string, line: string): Promise<Answer> {
    if (this.#failure) return Promise.reject(this.#failure(method));
    return new Promise((resolve, reject) => {
      this.#awaited = { id, method, resolve, reject };
      this.#setActive(true);
      this.#child.stdin.write(line);
    });
  }

  /** Gives up on a process that does not answer. */
  abandon(failure: Error): void {
    this.#fail(() => failure);
  }

  /**
   * Closes the pipes and waits for the process to exit.
   *
   * A process that is still completing a late checkpoint is left alone. It exits by itself.
   */
  async close(milliseconds: number): Promise<void> {
    this.#child.stdin.end();
    this.#child.stdout.destroy();
    this.#setActive(true);
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, milliseconds);
    });
    await Promise.race([this.#closed, timeout]);
    clearTimeout(timer);
    this.#setActive(false);
  }

  #read(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#partial.push(chunk.subarray(start, end));
      const line = Buffer.concat(this.#partial).toString("utf8");
      this.#partial = [];
      start = end + 1;
      this.#accept(line);
    }
    this.#partial.push(chunk.subarray(start));
  }

  #accept(line: string): void {
    const awaited = this.#awaited;
    const answer = parseAnswer(line);
    // A request that takeback could not read is answered with id null.
    if (!awaited || !answer || (answer.id !== awaited.id && answer.id !== null)) {
      const expected = `expected the answer to request ${awaited?.id}`;
      this.#fail(() => new ProtocolError(`${expected}, got ${line.slice(0, 200)}`));
      return;
    }
    this.#awaited = undefined;
    this.#setActive(false);
    awaited.resolve(answer);
  }

  #fail(failure: (method: string) => Error): void {
    this.#failure ??= failure;
    const awaited = this.#awaited;
    this.#awaited = undefined;
    this.#setActive(false);
    awaited?.reject(this.#failure(awaited.method));
  }

  /** Keeps Node running only while a request is in progress. */
  #setActive(isActive: boolean): void {
    const handles = [this.#child, this.#child.stdin, this.#child.stdout, this.#child.stderr];
    for (const handle of handles) {
      // The pipes of a child process are sockets, but their type does not say so.
      const socket = handle as unknown as Socket;
      isActive ? socket.ref() : socket.unref();
    }
  }
}

function parseAnswer(line: string): Answer | undefined {
  try {
    const answer: unknown = JSON.parse(line);
    return typeof answer === "object" && answer !== null && "id" in answer
      ? (answer as Answer)
      : undefined;
  } catch {
    return undefined;
  }
}
