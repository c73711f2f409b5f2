/** The methods of the protocol: the parameters and the result of each. */

import type {
  Explanation,
  Json,
  JsonPath,
  Name,
  ServerInfo,
  Settings,
  SlashAnswer,
  Status,
} from "./basic.js";
import type { CheckpointName, Checkpoints, Diff, Fork, NewCheckpoint } from "./checkpoint.js";
import type {
  PlanResult,
  RestoreParams,
  RollbackParams,
  RollbackResult,
  UndoParams,
} from "./rollback.js";
import type {
  CompressedSession,
  Message,
  Notices,
  Report,
  ReportParams,
  SessionName,
  ToolParams,
  Usage,
  Who,
} from "./session.js";
import type {
  RewoundSession,
  SearchResult,
  SessionNode,
  SessionRow,
  SessionState,
  StatsBy,
  Transcript,
  UsageTotal,
} from "./sessions.js";
import type {
  Channel,
  Encoded,
  NewWrite,
  StateCount,
  ThreadPage,
  ThreadPosition,
  ThreadState,
} from "./threads.js";

type None = Record<never, never>;
type OneSession = { session: string };
type OneThread = { app: string; thread: string };
type Method<Params, Result> = { params: Params; result: Result };

export interface Methods {
  initialize: Method<None, ServerInfo>;
  status: Method<None, Status>;
  "config.get": Method<None, Settings>;
  explain: Method<{ command: string }, Explanation>;
  slash: Method<
    { line: string; session?: string; model?: string; headless?: boolean },
    SlashAnswer | null
  >;

  "session.start": Method<ReportParams, Report>;
  "turn.start": Method<ReportParams & { prompt?: string }, Report>;
  "tool.before": Method<ToolParams, Report>;
  "tool.after": Method<ToolParams & { outcome?: unknown }, Report>;
  "turn.end": Method<ReportParams, Report>;
  "session.end": Method<ReportParams & { reason?: string }, Report>;
  "session.set": Method<
    Who & { user?: string; model?: string; model_config?: Json; system_prompt?: string },
    SessionName
  >;
  "session.compress": Method<Who & { to: Name }, CompressedSession>;
  "notices.take": Method<Who, Notices>;
  "messages.append": Method<Who & { messages: Message[] }, SessionName & { messages: number[] }>;
  "usage.record": Method<Who & { usage: Usage }, SessionName>;

  "checkpoint.create": Method<{ reason?: string; name?: string; pinned?: boolean }, NewCheckpoint>;
  "checkpoint.list": Method<None, Checkpoints>;
  "checkpoint.diff": Method<
    { checkpoint: CheckpointName; paths?: JsonPath[]; full?: boolean },
    Diff
  >;
  fork: Method<
    {
      from: CheckpointName;
      directory?: JsonPath;
      chat_only?: boolean;
      git?: boolean;
      agent?: string;
    },
    Fork
  >;
  "rollback.plan": Method<RollbackParams, PlanResult>;
  "rollback.apply": Method<RollbackParams & { digest?: string }, RollbackResult>;
  "rollback.undo": Method<RestoreParams & { dry_run?: boolean }, RollbackResult>;
  "rollback.redo": Method<RestoreParams & { dry_run?: boolean }, RollbackResult>;
  "undo.plan": Method<UndoParams, PlanResult>;
  "undo.apply": Method<UndoParams & { digest?: string }, RollbackResult>;

  "sessions.list": Method<
    { sources?: string[]; workspace?: JsonPath; limit?: number; archived?: boolean },
    { sessions: SessionRow[] }
  >;
  "sessions.get": Method<OneSession & { format?: "json" | "openai" | "anthropic" }, Transcript>;
  "sessions.search": Method<
    {
      query: string;
      sources?: string[];
      exclude_sources?: string[];
      roles?: string[];
      since?: string;
      undone?: boolean;
      limit?: number;
    },
    SearchResult
  >;
  "sessions.tree": Method<OneSession, SessionNode>;
  "sessions.title": Method<
    OneSession & { title: string; next?: boolean },
    { session: string; title: string | null }
  >;
  "sessions.end": Method<OneSession & { reason?: string }, SessionState>;
  "sessions.reopen": Method<OneSession, SessionState>;
  "sessions.archive": Method<OneSession & { archived?: boolean }, SessionState>;
  "sessions.clear": Method<OneSession, { session: string; messages: number }>;
  "sessions.fork": Method<
    OneSession & { at: number },
    { session: string; parent: string; at: number; title: string | null }
  >;
  "sessions.undo": Method<OneSession & { turns?: number }, RewoundSession>;
  "sessions.redo": Method<OneSession, RewoundSession>;
  "sessions.stats": Method<{ by?: StatsBy }, { by: string; totals: UsageTotal[] }>;

  "threads.put": Method<
    OneThread & {
      namespace?: string;
      id: string;
      parent?: string;
      files?: string;
      metadata?: { [key: string]: Json };
      deltas?: string[];
      content: Encoded;
      channels?: Channel[];
    },
    { missing: string[] }
  >;
  "threads.write": Method<
    OneThread & {
      namespace?: string;
      state: string;
      task: string;
      path?: string;
      writes: NewWrite[];
    },
    { state: string }
  >;
  "threads.get": Method<OneThread & { namespace?: string; id?: string }, ThreadState | null>;
  "threads.list": Method<
    {
      app: string;
      thread?: string;
      namespace?: string;
      id?: string;
      before?: string;
      metadata?: { [key: string]: Json };
      after?: ThreadPosition;
      limit?: number;
    },
    ThreadPage
  >;
  "threads.copy": Method<{ app: string; from: string; to: string }, StateCount>;
  "threads.prune": Method<OneThread, StateCount>;
  "threads.delete": Method<OneThread, StateCount>;
  "threads.delete_runs": Method<{ app: string; runs: string[] }, StateCount>;
}

export type MethodName = keyof Methods;
export type Params<M extends MethodName> = Methods[M]["params"];
export type Result<M extends MethodName> = Methods[M]["result"];
