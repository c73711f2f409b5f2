/** The methods of the protocol. For example, `tool.before` becomes `toolBefore`. */

import type { Json, MethodName, Params, Result } from "./types/index.js";

/** The base of the client, which has a method for each method of the protocol. */
export abstract class MethodCalls {
  /** Calls a method by its name in the protocol. */
  abstract call<M extends MethodName>(method: M, params: Params<M>): Promise<Result<M>>;

  /** Describes the server: its version, its home and its methods. */
  initialize(): Promise<Result<"initialize">> {
    return this.call("initialize", {});
  }

  /** Describes the store and its workspaces. */
  status(): Promise<Result<"status">> {
    return this.call("status", {});
  }

  /** Lists all settings, and the source of each value. */
  configGet(): Promise<Result<"config.get">> {
    return this.call("config.get", {});
  }

  /** Analyzes a shell command without running it. */
  explain(params: Params<"explain">): Promise<Result<"explain">> {
    return this.call("explain", params);
  }

  /** Answers a slash command. Returns null if the line is a prompt for the model. */
  slash(params: Params<"slash">): Promise<Result<"slash">> {
    return this.call("slash", params);
  }

  /** Reports that a session begins. */
  sessionStart(params: Params<"session.start">): Promise<Result<"session.start">> {
    return this.call("session.start", params);
  }

  /** Reports that a turn begins, with the user's message. */
  turnStart(params: Params<"turn.start">): Promise<Result<"turn.start">> {
    return this.call("turn.start", params);
  }

  /** Reports a tool call before it runs. Resolves when the checkpoint is complete, or with `late` if that takes longer than `timeout_ms`. */
  toolBefore(params: Params<"tool.before">): Promise<Result<"tool.before">> {
    return this.call("tool.before", params);
  }

  /** Reports that a tool call has ended. */
  toolAfter(params: Params<"tool.after">): Promise<Result<"tool.after">> {
    return this.call("tool.after", params);
  }

  /** Reports that a turn has ended. */
  turnEnd(params: Params<"turn.end">): Promise<Result<"turn.end">> {
    return this.call("turn.end", params);
  }

  /** Reports that a session has ended. */
  sessionEnd(params: Params<"session.end">): Promise<Result<"session.end">> {
    return this.call("session.end", params);
  }

  /** Replaces the given settings of a session. */
  sessionSet(params: Params<"session.set">): Promise<Result<"session.set">> {
    return this.call("session.set", params);
  }

  /** Ends a session as compacted, and continues it as the session `to`. */
  sessionCompress(params: Params<"session.compress">): Promise<Result<"session.compress">> {
    return this.call("session.compress", params);
  }

  /** Takes the session's pending notices. Each notice is returned only once. */
  noticesTake(params: Params<"notices.take">): Promise<Result<"notices.take">> {
    return this.call("notices.take", params);
  }

  /** Appends messages. Report the user's messages as the prompts of `turnStart` instead. */
  messagesAppend(params: Params<"messages.append">): Promise<Result<"messages.append">> {
    return this.call("messages.append", params);
  }

  /** Adds usage to the session's usage. */
  usageRecord(params: Params<"usage.record">): Promise<Result<"usage.record">> {
    return this.call("usage.record", params);
  }

  /** Takes a checkpoint by hand. */
  checkpointCreate(params: Params<"checkpoint.create"> = {}): Promise<Result<"checkpoint.create">> {
    return this.call("checkpoint.create", params);
  }

  /** Lists the checkpoints of the workspace, newest first. */
  checkpointList(): Promise<Result<"checkpoint.list">> {
    return this.call("checkpoint.list", {});
  }

  /** Compares a checkpoint with the current state. */
  checkpointDiff(params: Params<"checkpoint.diff">): Promise<Result<"checkpoint.diff">> {
    return this.call("checkpoint.diff", params);
  }

  /** Copies the conversation and, into a new directory, the files of a checkpoint. */
  fork(params: Params<"fork">): Promise<Result<"fork">> {
    return this.call("fork", params);
  }

  /** Plans a return to a checkpoint. Changes nothing. */
  rollbackPlan(params: Params<"rollback.plan">): Promise<Result<"rollback.plan">> {
    return this.call("rollback.plan", params);
  }

  /** Returns to a checkpoint; with a digest, only if the plan still has this digest. */
  rollbackApply(params: Params<"rollback.apply">): Promise<Result<"rollback.apply">> {
    return this.call("rollback.apply", params);
  }

  /** Undoes the latest rollback or undo. */
  rollbackUndo(params: Params<"rollback.undo"> = {}): Promise<Result<"rollback.undo">> {
    return this.call("rollback.undo", params);
  }

  /** Reverses the latest `rollbackUndo`. */
  rollbackRedo(params: Params<"rollback.redo"> = {}): Promise<Result<"rollback.redo">> {
    return this.call("rollback.redo", params);
  }

  /** Plans how to take back one turn and keep later edits. Changes nothing. */
  undoPlan(params: Params<"undo.plan"> = {}): Promise<Result<"undo.plan">> {
    return this.call("undo.plan", params);
  }

  /** Takes back one turn, by default the last one, and keeps later edits. */
  undoApply(params: Params<"undo.apply"> = {}): Promise<Result<"undo.apply">> {
    return this.call("undo.apply", params);
  }

  /** Lists sessions, latest activity first. */
  sessionsList(params: Params<"sessions.list"> = {}): Promise<Result<"sessions.list">> {
    return this.call("sessions.list", params);
  }

  /** Returns a whole session, or the messages that would be sent to a model. */
  sessionsGet(params: { session: string; format?: "json" }): Promise<Result<"sessions.get">>;
  sessionsGet(params: { session: string; format: "openai" | "anthropic" }): Promise<Json>;
  sessionsGet(params: Params<"sessions.get">): Promise<Result<"sessions.get"> | Json> {
    return this.call("sessions.get", params);
  }

  /** Searches all messages. */
  sessionsSearch(params: Params<"sessions.search">): Promise<Result<"sessions.search">> {
    return this.call("sessions.search", params);
  }

  /** Returns the lineage of a session, from its oldest ancestor down. */
  sessionsTree(params: Params<"sessions.tree">): Promise<Result<"sessions.tree">> {
    return this.call("sessions.tree", params);
  }

  /** Changes the title of a session. */
  sessionsTitle(params: Params<"sessions.title">): Promise<Result<"sessions.title">> {
    return this.call("sessions.title", params);
  }

  /** Marks a session as ended. */
  sessionsEnd(params: Params<"sessions.end">): Promise<Result<"sessions.end">> {
    return this.call("sessions.end", params);
  }

  /** Reopens a session that has ended. */
  sessionsReopen(params: Params<"sessions.reopen">): Promise<Result<"sessions.reopen">> {
    return this.call("sessions.reopen", params);
  }

  /** Archives a session, or takes it out of the archive. */
  sessionsArchive(params: Params<"sessions.archive">): Promise<Result<"sessions.archive">> {
    return this.call("sessions.archive", params);
  }

  /** Deletes the messages of a session. */
  sessionsClear(params: Params<"sessions.clear">): Promise<Result<"sessions.clear">> {
    return this.call("sessions.clear", params);
  }

  /** Copies the messages of a session, up to number `at`, into a new session. */
  sessionsFork(params: Params<"sessions.fork">): Promise<Result<"sessions.fork">> {
    return this.call("sessions.fork", params);
  }

  /** Takes back the last turns of a conversation, without files. */
  sessionsUndo(params: Params<"sessions.undo">): Promise<Result<"sessions.undo">> {
    return this.call("sessions.undo", params);
  }

  /** Reverses the latest `sessionsUndo`. */
  sessionsRedo(params: Params<"sessions.redo">): Promise<Result<"sessions.redo">> {
    return this.call("sessions.redo", params);
  }

  /** Returns the totals of tokens and costs. */
  sessionsStats(params: Params<"sessions.stats"> = {}): Promise<Result<"sessions.stats">> {
    return this.call("sessions.stats", params);
  }

  /** Stores a state of a thread, unless the values of some channels are missing. */
  threadsPut(params: Params<"threads.put">): Promise<Result<"threads.put">> {
    return this.call("threads.put", params);
  }

  /** Stores results of a task that the graph runs in the step after a state. */
  threadsWrite(params: Params<"threads.write">): Promise<Result<"threads.write">> {
    return this.call("threads.write", params);
  }

  /** Returns the state of a thread with this id, or the latest one. */
  threadsGet(params: Params<"threads.get">): Promise<Result<"threads.get">> {
    return this.call("threads.get", params);
  }

  /** Lists the states of threads, those with the greatest id first. */
  threadsList(params: Params<"threads.list">): Promise<Result<"threads.list">> {
    return this.call("threads.list", params);
  }

  /** Copies all states of a thread into a new thread. */
  threadsCopy(params: Params<"threads.copy">): Promise<Result<"threads.copy">> {
    return this.call("threads.copy", params);
  }

  /** Deletes all states except the latest one of each namespace and the states that it needs. */
  threadsPrune(params: Params<"threads.prune">): Promise<Result<"threads.prune">> {
    return this.call("threads.prune", params);
  }

  /** Deletes a thread. */
  threadsDelete(params: Params<"threads.delete">): Promise<Result<"threads.delete">> {
    return this.call("threads.delete", params);
  }

  /** Deletes the states that these runs created, except those that other states need. */
  threadsDeleteRuns(params: Params<"threads.delete_runs">): Promise<Result<"threads.delete_runs">> {
    return this.call("threads.delete_runs", params);
  }
}
