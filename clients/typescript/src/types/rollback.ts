/** Types of plans, rollbacks and undos. */

import type { Effect, JsonPath } from "./basic.js";
import type { CheckpointName, Head, Resume, Uncovered } from "./checkpoint.js";

/** The part of a checkpoint to restore. */
export type Scope = "both" | "files" | "chat";

/** A way to resolve a conflict. */
export type Resolution = "leave" | "theirs" | "ours" | "markers";

/** The parameters that all rollbacks and undos share. */
export interface RestoreParams {
  skip_blocked?: boolean;
  workspace_only?: boolean;
}

export interface RollbackParams extends RestoreParams {
  checkpoint: CheckpointName;
  paths?: JsonPath[];
  scope?: Scope;
  index?: boolean;
}

export interface UndoParams extends RestoreParams {
  turn?: number;
  conflicts?: Resolution;
  uncertain?: boolean;
  taken?: JsonPath[];
  files?: { path: JsonPath; resolution: Resolution }[];
}

export interface BlockedPath {
  path: JsonPath;
  blocked: string;
  reason?: string;
  size?: number;
  error?: string;
  writers?: { pid: number; command: string }[];
}

/** The part of a rollback that affects a directory or file outside the workspace. */
export interface Elsewhere {
  workspace: JsonPath;
  restored: JsonPath[];
  deleted: JsonPath[];
  others?: JsonPath[];
  left?: JsonPath[];
  blocked?: BlockedPath[];
  safety_checkpoint: string | null;
  error?: string;
}

export interface MovedSession {
  session: string;
  undone_messages: number;
  redone_messages: number;
  undone_turns: number;
  prompt?: string;
  resume?: Resume;
  stays?: string;
}

/** The result of a rollback or an undo, or the plan for one. */
export interface RollbackResult {
  action: string;
  row?: number;
  checkpoint: string;
  safety_checkpoint: string | null;
  restored: JsonPath[];
  deleted: JsonPath[];
  guarded: JsonPath[];
  kept: { path: JsonPath; reason: string }[];
  saved: JsonPath[];
  uncovered: Uncovered[];
  unsettled?: JsonPath[];
  privileged?: JsonPath[];
  unprivileged?: JsonPath[];
  disowned?: JsonPath[];
  blocked: BlockedPath[];
  skipped?: BlockedPath[];
  others: JsonPath[];
  conflicts?: { path: JsonPath; reason: string; resolved: boolean }[];
  uncertain?: JsonPath[];
  doubts?: { path: JsonPath; reason: string }[];
  elsewhere?: Elsewhere[];
  effects: Effect[];
  chat?: { session: string; prompt: string | null; resume: string | null };
  sessions?: MovedSession[];
  undone_messages: number;
  redone_messages: number;
  index: boolean;
  repository: { then: Head; now: Head; command: string | null } | null;
  warnings: string[];
}

export interface PlanResult {
  plan: RollbackResult;
  digest: string;
}
