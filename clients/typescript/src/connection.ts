/** A connection to takeback that many requests can share at the same time. */

import {
  ClosedError,
  ProtocolError,
  RequestTimeoutError,
  RequestTooLongError,
  ServerDiedError,
  StartError,
  makeRpcError,
} from "./errors.js";
import { ServerProcess } from "./process.js";
import type { StartOptions } from "./process.js";
import type { ServerInfo } from "./types/index.js";

/** The version of the protocol that this client speaks. */
const PROTOCOL = 1;

/** The longest time that a Node timer can wait: 24 days. A longer timeout is no limit at all. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** A request that has not been answered. */
class PendingRequest {
  wasSent = false;
  isSettled = false;
  readonly result: Promise<unknown>;
  #settle!: { resolve: (result: unknown) => void; reject: (error: unknown) => void };
  #timer: NodeJS.Timeout | undefined;

  constructor(
    readonly method: string,
    readonly params: object,
    milliseconds: number,
  ) {
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    if (milliseconds <= LONGEST_TIMER) {
      const expire = () => this.reject(new RequestTimeoutError(method, milliseconds, this.wasSent));
      this.#timer = setTimeout(expire, milliseconds);
    }
  }

  resolve(result: unknown): void {
    this.#end(() => this.#settle.resolve(result));
  }

  reject(error: unknown): void {
    this.#end(() => this.#settle.reject(error));
  }

  #end(settle: () => void): void {
    clearTimeout(this.#timer);
    if (!this.isSettled) settle();
    this.isSettled = true;
  }
}

/**
 * Starts `takeback rpc`, and restarts it for the next request if it has exited.
 *
 * Each request is sent at most once, after the previous request has been answered. So a request
 * that times out while it waits for others has not been sent, and never will be.
 */
export class Connection {
  readonly #options: StartOptions;
  readonly #startMilliseconds: number;
  #queue: PendingRequest[] = [];
  #working: Promise<void> | undefined;
  #server: ServerProcess | undefined;
  #lastId = 0;
  #maxLineBytes = Infinity;
  #isClosed = false;

  constructor(options: StartOptions, startMilliseconds: number) {
    this.#options = options;
    this.#startMilliseconds = startMilliseconds;
  }

  get serverPid(): number | undefined {
    return this.#server?.hasEnded() === false ? this.#server.pid : undefined;
  }

  /** Sends a request and returns its result. */
  request(method: string, params: object, milliseconds: number): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new ClosedError("this client has been closed"));
    const request = new PendingRequest(method, params, milliseconds);
    this.#queue.push(request);
    this.#working ??= this.#work();
    return request.result;
  }

  /** Stops takeback. Waits for the answer to the request that has been sent; all others fail. */
  async close(milliseconds: number): Promise<void> {
    this.#isClosed = true;
    for (const request of this.#queue.splice(0)) {
      request.reject(new ClosedError("this client has been closed"));
    }
    const end = Date.now() + milliseconds;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, milliseconds);
    });
    await Promise.race([this.#working, timeout]);
    clearTimeout(timer);
    await this.#dropServer(Math.max(0, end - Date.now()));
  }

  async #work(): Promise<void> {
    for (let request = this.#queue.shift(); request; request = this.#queue.shift()) {
      if (!request.isSettled) await this.#serve(request);
    }
    this.#working = undefined;
  }

  async #serve(request: PendingRequest): Promise<void> {
    try {
      const server = await this.#runningServer();
      const line = this.#makeLine(request.method, request.params);
      if (request.isSettled) return;
      request.wasSent = true;
      request.resolve(await this.#ask(server, request.method, line));
    } catch (error) {
      request.reject(error);
    }
  }

  async #runningServer(): Promise<ServerProcess> {
    if (this.#server?.hasEnded() === false) return this.#server;
    const server = new ServerProcess(this.#options);
    this.#server = server;
    const stuck = setTimeout(
      () => server.abandon(new StartError("takeback rpc does not answer")),
      Math.min(this.#startMilliseconds, LONGEST_TIMER),
    );
    try {
      const line = this.#makeLine("initialize", {});
      const info = (await this.#ask(server, "initialize", line)) as ServerInfo;
      if (info.protocol !== PROTOCOL) {
        const theirs = `takeback ${info.version} speaks protocol ${info.protocol}`;
        const message = `${theirs}, but this client speaks protocol ${PROTOCOL}`;
        throw new StartError(message, "update the older of the two");
      }
      this.#maxLineBytes = info.max_line_bytes;
      return server;
    } catch (error) {
      await this.#dropServer(0);
      if (error instanceof ServerDiedError || error instanceof ProtocolError) {
        const message = `cannot start takeback rpc: ${error.message}`;
        throw new StartError(message, undefined, { cause: error });
      }
      throw error;
    } finally {
      clearTimeout(stuck);
    }
  }

  #makeLine(method: string, params: object): string {
    this.#lastId += 1;
    const line = JSON.stringify({ jsonrpc: "2.0", id: this.#lastId, method, params });
    const length = Buffer.byteLength(line);
    if (length > this.#maxLineBytes) {
      const message = `${method} needs ${length} bytes, more than ${this.#maxLineBytes}`;
      throw new RequestTooLongError(message, "the request was not sent");
    }
    return `${line}\n`;
  }

  async #ask(server: ServerProcess, method: string, line: string): Promise<unknown> {
    const answer = await server.exchange(this.#lastId, method, line).catch(async (error) => {
      await this.#dropServer(0);
      throw error;
    });
    if (answer.error) throw makeRpcError(answer.error);
    return answer.result;
  }

  async #dropServer(milliseconds: number): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.close(milliseconds);
  }
}
