/** Types of checkpoints, diffs, forks, rollbacks and undos. */

import type { Effect, Failure, JsonPath, Name } from "./basic.js";

/** The number of a row or of a step (`"2.3"`), a name, or an id. */
export type CheckpointName = number | string;

/** A path that a checkpoint does not cover. */
export interface Uncovered {
  path: JsonPath;
  reason: string;
  size?: number;
  error?: string;
}

export interface NewCheckpoint {
  id: string;
  number: number;
  created: string;
  name: string | null;
  pinned: boolean;
  files: number;
  new: boolean;
  uncovered: Uncovered[];
}

export interface Step {
  number: string;
  id: string;
  time: string;
  reason: string;
  tool: string | null;
  call: string | null;
  late: boolean;
}

/** A manual checkpoint, or a turn with its steps. */
export interface Row {
  number: number;
  id: string;
  time: string;
  name: string | null;
  pinned: boolean;
  kind: string;
  reason: string;
  agent: string | null;
  session: string | null;
  turn: Name | null;
  tool: string | null;
  prompt: string | null;
  files_changed: number | null;
  insertions: number | null;
  deletions: number | null;
  effects: Effect[];
  uncovered: { count: number; paths: JsonPath[] };
  unsettled?: JsonPath[];
  late: boolean;
  taken_back?: boolean;
  steps: Step[];
}

export interface Checkpoints {
  workspace: JsonPath;
  checkpoints: Row[];
  failures?: Failure[];
  unreadable?: string[];
  repositories?: JsonPath[];
  ledger_error?: string;
  inner?: Checkpoints;
}

export interface ChangeSide {
  mode: string;
  oid: string;
  size: number;
}

/** The change to one path. */
export interface Change {
  path: JsonPath;
  kind: string;
  renamed_from?: JsonPath;
  from: ChangeSide | null;
  to: ChangeSide | null;
  lines: { insertions: number; deletions: number } | null;
  binary: boolean;
  private: boolean;
}

export interface Diff {
  checkpoint: string;
  to?: string;
  files_changed: number;
  insertions: number;
  deletions: number;
  changes: Change[];
  diff: string;
  left_out: number;
}

/** The commit and the branch that a repository is on. */
export interface Head {
  commit: string | null;
  branch: string | null;
}

/** Instructions for continuing an agent's own conversation. */
export interface Resume {
  agent: string;
  session: string | null;
  argv: string[];
  cwd: string | null;
  typed: string | null;
  file?: string;
  in_place: boolean;
}

export interface Fork {
  session: string | null;
  parent: string | null;
  turn: number | null;
  messages: number | null;
  title: string | null;
  checkpoint: string | null;
  workspace: JsonPath | null;
  directory: JsonPath | null;
  files: number;
  cloned: number;
  uncovered: Uncovered[];
  unsettled?: JsonPath[];
  unprivileged?: JsonPath[];
  repository: Head | null;
  repositories?: JsonPath[];
  resume?: Resume;
  warnings?: string[];
}
