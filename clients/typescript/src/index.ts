/** A client for `takeback rpc`: checkpoints, rollback and a ledger for your own agent. */

export { Takeback } from "./client.js";
export type { TakebackOptions } from "./client.js";
export { AgentSession } from "./session.js";
export type { ToolCall } from "./session.js";
export {
  BlockedError,
  ClosedError,
  InternalError,
  InvalidParamsError,
  InvalidRequestError,
  OperationFailedError,
  PlanChangedError,
  ProtocolError,
  RequestTimeoutError,
  RequestTooLongError,
  RpcError,
  ServerDiedError,
  StartError,
  TakebackError,
  ToolRefusedError,
  UnknownMethodError,
} from "./errors.js";
export { decodePath, encodePath } from "./paths.js";
export type * from "./types/index.js";
