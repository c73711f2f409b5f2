/** Types about the sessions of all agents. */

import type { Json } from "./basic.js";
import type { Message, Usage } from "./session.js";

export interface SessionRow {
  id: string;
  source: string;
  model: string | null;
  title: string | null;
  preview: string;
  started_at: number | null;
  ended_at: number | null;
  end_reason: string | null;
  last_activity: number;
  message_count: number;
  tool_call_count: number;
  input_tokens: number;
  output_tokens: number;
  estimated_cost_usd: number | null;
  actual_cost_usd: number | null;
  workspace: string | null;
  git_branch: string | null;
  parent_session_id: string | null;
  parent_kind: string | null;
  archived: boolean;
}

/** A message that a search found. */
export interface Hit {
  session: string;
  message: number;
  role: string;
  time: number;
  snippet: string;
  before: string | null;
  after: string | null;
  source: string;
  model: string | null;
  title: string | null;
  session_started: number;
}

export interface SearchResult {
  query: string;
  results: Hit[];
  total: number;
  more: boolean;
  stopped: boolean;
}

/** A session with its descendants. */
export interface SessionNode {
  id: string;
  title: string | null;
  source: string;
  model: string | null;
  parent_kind: string | null;
  started_at: number | null;
  ended_at: number | null;
  message_count: number;
  archived: boolean;
  workspace: string | null;
  asked: boolean;
  children: SessionNode[];
}

export interface SessionState {
  session: string;
  ended_at: number | null;
  end_reason: string | null;
  archived: boolean;
}

export interface RewoundSession {
  session: string;
  messages: number;
  turns: number;
  from_message: number;
  prompt: string | null;
}

export interface UsageTotal {
  key: string;
  sessions: number;
  messages: number;
  tool_calls: number;
  api_calls: number;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  estimated_cost_usd: number;
  actual_cost_usd: number;
  unpriced_sessions: number;
}

/** The property that totals are grouped by. */
export type StatsBy = "model" | "day" | "workspace" | "source" | "session";

/** A tool call, as recorded in the ledger. */
export interface Call {
  call: string;
  turn: number;
  tool: string;
  input: Json;
  outcome: string | null;
  started_at: number | null;
  ended_at: number | null;
  workspace: string | null;
  checkpoint: string | null;
  tree_before: string | null;
  tree_after: string | null;
  uncertain: boolean;
}

/** An effect that no rollback reverses, as recorded in the ledger. */
export interface RecordedEffect {
  turn: number;
  call: string | null;
  kind: string;
  command: string;
  workspace: string | null;
  time: number | null;
}

/** A session in the exchange format. */
export interface Transcript {
  id: string;
  source: string;
  user_id: string | null;
  model: string | null;
  model_config: Json;
  system_prompt: string | null;
  parent_session_id: string | null;
  parent_kind: string | null;
  started_at: number | null;
  ended_at: number | null;
  end_reason: string | null;
  message_count: number;
  tool_call_count: number;
  api_call_count: number;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  billing_provider: string | null;
  billing_base_url: string | null;
  billing_mode: string | null;
  estimated_cost_usd: number | null;
  actual_cost_usd: number | null;
  cost_status: string | null;
  cost_source: string | null;
  pricing_version: string | null;
  title: string | null;
  workspace: string | null;
  git_branch: string | null;
  archived: boolean;
  messages: Message[];
  usage?: Usage[];
  calls?: Call[];
  effects?: RecordedEffect[];
}
