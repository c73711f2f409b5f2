/** Types of the agent's own reports, messages and notices. */

import type { Effect, Json, JsonPath, Name } from "./basic.js";

/** The session of a request. The agent defaults to `generic`, and the session to `default`. */
export interface Who {
  agent?: Name;
  session?: Name;
}

/** The parameters that all reports share. */
export interface ReportParams extends Who {
  parent?: Name;
  turn?: Name;
  model?: string;
}

export interface ToolParams extends ReportParams {
  call?: Name;
  tool?: string;
  input?: unknown;
}

/** A path that a call may change and that no checkpoint can restore. */
export interface Unprotected {
  path: string;
  reason: string;
  replaceable: boolean;
}

/** The answer to an agent's report. */
export interface Report {
  session: string;
  enabled: boolean;
  checkpoints: string[];
  missed: boolean;
  late: boolean;
  failures: string[];
  unprotected: Unprotected[];
  tampering: string[];
  refused: boolean;
}

/** The files and effects that the agent must know about after a rollback. */
export interface Notice {
  workspace: JsonPath;
  files: { path: JsonPath; removed: boolean }[];
  more: number;
  effects: Effect[];
}

export interface Notices {
  session: string;
  notices: Notice[];
  text: string | null;
}

/** A message in the exchange format. */
export interface Message {
  role: string;
  seq?: number;
  content?: Json;
  tool_call_id?: string | null;
  tool_calls?: Json;
  tool_name?: string | null;
  timestamp?: number | string | null;
  token_count?: number | null;
  finish_reason?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
  reasoning_details?: Json;
  codex_reasoning_items?: Json;
  codex_message_items?: Json;
  undone?: boolean;
  compacted?: boolean;
  summarizes?: number;
}

/** The usage of one model. */
export interface Usage {
  model?: string;
  billing_provider?: string | null;
  billing_base_url?: string | null;
  billing_mode?: string | null;
  api_call_count?: number;
  input_tokens?: number;
  output_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  estimated_cost_usd?: number | null;
  actual_cost_usd?: number | null;
  cost_status?: string | null;
  cost_source?: string | null;
  pricing_version?: string | null;
  first_seen?: number | string | null;
  last_seen?: number | string | null;
}

export interface SessionName {
  session: string;
}

export interface CompressedSession {
  session: string;
  parent: string;
  title: string | null;
}
