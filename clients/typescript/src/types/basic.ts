/** Types that several methods share, and types about takeback itself. */

/** A path that is not valid UTF-8: its bytes in base64. `decodePath` decodes it. */
export interface RawPath {
  bytes: string;
}

export type JsonPath = string | RawPath;

/** The agent's name for a session, a turn or a call. */
export type Name = string | number;

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

export interface ServerInfo {
  protocol: number;
  version: string;
  home: JsonPath;
  cwd: JsonPath;
  max_line_bytes: number;
  methods: string[];
}

/** A command whose effect no rollback reverses. */
export interface Effect {
  kind: string;
  command: string;
}

/** An error in a hook, such as a missed checkpoint. */
export interface Failure {
  workspace: JsonPath;
  checkpoint: boolean;
  message: string;
  since: number;
  until: number;
  count: number;
}

export interface WorkspaceStatus {
  path: JsonPath;
  checkpoints: number;
  last_touched: string;
  state: string;
}

export interface Status {
  home: JsonPath;
  total_bytes: number;
  store_bytes: number;
  max_bytes: number;
  can_shrink: boolean;
  clock_jump: { from: string; to: string } | null;
  legacy: { name: string; bytes: number }[];
  workspaces: WorkspaceStatus[];
  failures: Failure[];
  mirror: { path: JsonPath; updated: string | null } | null;
}

export interface Settings {
  file: string;
  profile: string | null;
  profiles: string[];
  settings: { key: string; value: Json; source: string; meaning: string | null }[];
}

export interface Explanation {
  mutates: boolean;
  because: string;
  effects: Effect[];
  paths: string[];
  outside: string[];
  sweeps: string[];
  unknown: string[];
  history: { command: string }[];
  bounded: boolean;
}

/** The change that a front end has to make after a slash command. */
export type SlashAction =
  | { do: "resume"; session: string | null; directory: JsonPath | null }
  | { do: "model"; name: string }
  | { do: "quit" };

export interface SlashAnswer {
  text: string;
  data: Json;
  action: SlashAction | null;
  failed: boolean;
}
