/** The client: a takeback process, and the methods of its protocol. */

import { resolve } from "node:path";

import { Connection } from "./connection.js";
import { MethodCalls } from "./methods.js";
import { AgentSession } from "./session.js";
import type { JsonPath, MethodName, Name, Params, Result } from "./types/index.js";

/** The default number of milliseconds that a request may take. */
const DEFAULT_TIMEOUT = 120_000;

/** The milliseconds that `close` waits for takeback to exit. */
const CLOSE_TIMEOUT = 10_000;

export interface TakebackOptions {
  /** The directory to work in; by default, the working directory of this process. */
  directory?: string;
  /** The name or path of takeback. */
  program?: string;
  /** takeback's home directory. */
  home?: string;
  /** The environment of takeback, in place of the environment of this process. */
  environment?: Record<string, string | undefined>;
  /** The milliseconds that a request may take; `Infinity` waits forever. */
  timeout?: number;
  /** Gets each line of takeback's standard error. By default the line is printed. */
  onWarning?: (line: string) => void;
}

/** The settings that can differ between clients that share a connection. */
interface View {
  directory: JsonPath | undefined;
  timeout: number;
}

/**
 * A running `takeback rpc`. Any number of requests can be made at the same time.
 *
 * If the process dies, the request in progress fails with a `ServerDiedError` and is never
 * sent again, and the next request starts a new process. All state is on disk, so nothing else is
 * lost.
 */
export class Takeback extends MethodCalls {
  readonly #connection: Connection;
  readonly #view: View;

  private constructor(connection: Connection, view: View) {
    super();
    this.#connection = connection;
    this.#view = view;
  }

  /** Starts takeback. A `StartError` says why it could not be started. */
  static async start(options: TakebackOptions = {}): Promise<Takeback> {
    const program = options.program ?? "takeback";
    const timeout = options.timeout ?? DEFAULT_TIMEOUT;
    const home = options.home === undefined ? [] : ["--home", resolve(options.home)];
    const start = {
      program: program.includes("/") ? resolve(program) : program,
      arguments: [...home, "rpc"],
      directory: options.directory,
      environment: options.environment,
      onWarning: options.onWarning ?? ((line) => console.error(line)),
    };
    const connection = new Connection(start, timeout);
    const takeback = new Takeback(connection, { directory: undefined, timeout });
    await takeback.initialize();
    return takeback;
  }

  /** Calls a method by its name in the protocol. */
  override call<M extends MethodName>(method: M, params: Params<M>): Promise<Result<M>> {
    const { directory, timeout } = this.#view;
    const sent = directory === undefined ? params : { cwd: directory, ...params };
    return this.#connection.request(method, sent, timeout) as Promise<Result<M>>;
  }

  /**
   * Returns a client that works in another directory, over the same connection.
   *
   * A relative path is relative to the directory that takeback was started in.
   */
  inDirectory(directory: JsonPath): Takeback {
    return new Takeback(this.#connection, { ...this.#view, directory });
  }

  /** Returns a client with another timeout in milliseconds, over the same connection. */
  withTimeout(timeout: number): Takeback {
    return new Takeback(this.#connection, { ...this.#view, timeout });
  }

  /** Returns a session of your agent, which adds these parameters to each report. */
  session(params: { agent: string; session: Name; model?: string; parent?: Name }): AgentSession {
    return new AgentSession(this, params);
  }

  /** The id of the running process; undefined if there is none at the moment. */
  get serverPid(): number | undefined {
    return this.#connection.serverPid;
  }

  /**
   * Stops takeback, and waits up to `milliseconds` for it to exit.
   *
   * A process that is still completing a late checkpoint is not killed. It exits by itself.
   */
  close(milliseconds = CLOSE_TIMEOUT): Promise<void> {
    return this.#connection.close(milliseconds);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
