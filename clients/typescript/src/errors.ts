/** The errors of the client. Each of them is a `TakebackError`. */

import type { PlanResult, Report, RollbackResult } from "./types/index.js";

/** An error from takeback, or in the connection to it. `hint` is advice on what to do next. */
export class TakebackError extends Error {
  readonly hint: string | undefined;

  constructor(message: string, hint?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.hint = hint;
  }
}

/** `takeback rpc` could not be started, or speaks another version of the protocol. */
export class StartError extends TakebackError {}

/** The client has been closed. The request was not sent. */
export class ClosedError extends TakebackError {}

/** The program that was started does not speak takeback's protocol. */
export class ProtocolError extends TakebackError {}

/** The request is longer than takeback accepts. It was not sent. */
export class RequestTooLongError extends TakebackError {}

/** No answer arrived in time. */
export class RequestTimeoutError extends TakebackError {
  /** True if takeback may still carry out the request. Otherwise it never will. */
  readonly wasSent: boolean;

  constructor(method: string, milliseconds: number, wasSent: boolean) {
    const hint = wasSent ? "takeback may still carry it out" : "the request was not sent";
    super(`takeback did not answer ${method} within ${milliseconds / 1000} s`, hint);
    this.wasSent = wasSent;
  }
}

/**
 * `takeback rpc` exited before it answered a request, so the outcome is unknown.
 *
 * The next request starts a new process. The failed request is never sent again; the next operation
 * in the workspace finishes or reverts the interrupted work.
 */
export class ServerDiedError extends TakebackError {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last lines that the process wrote to standard error. */
  readonly warnings: readonly string[];

  constructor(
    method: string,
    exitCode: number | null,
    signal: NodeJS.Signals | null,
    warnings: readonly string[],
  ) {
    const end = signal ? `was killed by ${signal}` : `ended with exit code ${exitCode}`;
    const said = warnings.length > 0 ? `: ${warnings.join(" / ")}` : "";
    const message = `takeback ${end} before it answered ${method}${said}`;
    super(message, "list the checkpoints to see what was done");
    this.exitCode = exitCode;
    this.signal = signal;
    this.warnings = warnings;
  }
}

/** Says why takeback refuses a call. */
function describeRefusal(report: Report): string {
  if (report.tampering.length > 0) return `it would ${report.tampering.join("; ")}`;
  // Strict mode refuses calls that are not fully protected.
  const lost = report.unprotected.map((one) => `${one.path}: ${one.reason}`);
  return `it is not fully protected: ${[...lost, ...report.failures].join("; ")}`;
}

/** takeback refuses a tool call, so the agent must not run it. */
export class ToolRefusedError extends TakebackError {
  readonly report: Report;

  constructor(report: Report) {
    super(`takeback refuses this call: ${describeRefusal(report)}`);
    this.report = report;
  }
}

/** The error in an answer. */
export interface AnswerError {
  code: number;
  message: string;
  data?: { causes?: string[]; hint?: string | null; now?: PlanResult; plan?: RollbackResult };
}

/** takeback answered a request with an error. */
export class RpcError extends TakebackError {
  readonly code: number;
  readonly causes: readonly string[];
  readonly data: NonNullable<AnswerError["data"]>;

  constructor(error: AnswerError) {
    const causes = error.data?.causes ?? [];
    super([error.message, ...causes].join(": "), error.data?.hint ?? undefined);
    this.code = error.code;
    this.causes = causes;
    this.data = error.data ?? {};
  }
}

/** takeback could not read the request. */
export class InvalidRequestError extends RpcError {}

/** This version of takeback does not have the method. */
export class UnknownMethodError extends RpcError {}

/** A parameter is missing, wrong or unknown. The message says which. */
export class InvalidParamsError extends RpcError {}

/** A bug in takeback. */
export class InternalError extends RpcError {}

/** The operation failed. `causes` and `hint` say why, and what to do. */
export class OperationFailedError extends RpcError {}

/** The plan no longer has the given digest. Nothing was changed. */
export class PlanChangedError extends RpcError {
  /** The plan as it would be now, with its digest. */
  get now(): PlanResult {
    return this.data.now as PlanResult;
  }
}

/** Some paths cannot be restored. Nothing was changed. */
export class BlockedError extends RpcError {
  /** The plan, whose `blocked` lists these paths. */
  get plan(): RollbackResult {
    return this.data.plan as RollbackResult;
  }
}

const BY_CODE = new Map<number, typeof RpcError>([
  [-32700, InvalidRequestError],
  [-32600, InvalidRequestError],
  [-32601, UnknownMethodError],
  [-32602, InvalidParamsError],
  [-32603, InternalError],
  [-32000, OperationFailedError],
  [-32001, PlanChangedError],
  [-32002, BlockedError],
]);

/** Builds the error object for an error in an answer. */
export function makeRpcError(error: AnswerError): RpcError {
  return new (BY_CODE.get(error.code) ?? RpcError)(error);
}
