//! Handles the agent's messages: its sessions, its answers, its calls, and its requests to the
//! editor.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use takeback_undo::hook::quote_word;
use takeback_undo::{Report, ReportedEvent};

use super::calls::{CallState, CallUpdate};
use super::commands::AgentCommands;
use super::message::{Envelope, Outcome, Params, Update, block_text, splice};
use super::proxy::{Passage, Proxy, now};
use super::session::{AgentRequest, CallName, EditorRequest};
use crate::takeover::{HookReports, Takeover};

impl Proxy {
    /// Records the content of a message from the agent. Returns how to pass the message on, and the
    /// messages to send to the editor after it.
    pub(super) fn hear_agent(
        self: &Arc<Proxy>,
        message: &Envelope<'_>,
        line: &[u8],
    ) -> (Passage, Vec<u8>) {
        if message.is_response() {
            return (Passage::Unchanged, self.hear_result(message));
        }
        let params = message.params().unwrap_or_default();
        let (Some(method), Some(session)) = (message.method.as_deref(), &params.session_id) else {
            return (Passage::Unchanged, Vec::new());
        };
        let passage = match method {
            "session/update" => self.hear_update(session, &params, line),
            "fs/write_text_file" => self.hear_write(session, message, &params),
            "terminal/create" => self.hear_terminal(session, message, &params),
            "terminal/wait_for_exit" | "terminal/release" => {
                self.hear_terminal_end(method, message, &params);
                Passage::Unchanged
            }
            "session/request_permission" => {
                self.hear_question(session, message, &params);
                Passage::Unchanged
            }
            _ => Passage::Unchanged,
        };
        (passage, Vec::new())
    }

    /// Records the agent's answer to a request from the editor. Returns the messages to send to the
    /// editor after the answer.
    fn hear_result(self: &Arc<Proxy>, message: &Envelope<'_>) -> Vec<u8> {
        let request = message.key().and_then(|key| self.state().of_editor.remove(&key));
        let Some(request) = request else { return Vec::new() };
        let outcome = message.outcome();
        match request {
            EditorRequest::Initialize => {
                let mut state = self.state();
                state.version = outcome.protocol_version.unwrap_or(1);
                outcome.agent_info.iter().for_each(|agent| state.recognize(&agent.name));
                Vec::new()
            }
            EditorRequest::NewSession { directory } => match &outcome.session_id {
                Some(session) => {
                    self.begin_session(session, &directory, false);
                    self.start_session(session, &outcome)
                }
                None => Vec::new(),
            },
            EditorRequest::LoadSession { session } => {
                self.state().session(&session).is_loading = false;
                match message.error {
                    None => self.start_session(&session, &outcome),
                    Some(_) => Vec::new(),
                }
            }
            EditorRequest::Prompt { session } => {
                self.end_turn(&session, &outcome);
                Vec::new()
            }
            EditorRequest::CloseSession { session } => {
                let mut state = self.state();
                let report = state.report(&session, ReportedEvent::SessionEnd);
                state.sessions.remove(&session);
                drop(state);
                self.report_later(report);
                Vec::new()
            }
        }
    }

    /// Records the directory of a session, and takes the session over from the agent's hooks.
    pub(super) fn begin_session(&self, session: &str, directory: &Path, is_loading: bool) {
        self.state().begin_session(session, directory, is_loading);
        self.take_over(session);
    }

    /// Takes a session over from the agent's hooks, if the agent has hooks.
    pub(super) fn take_over(&self, session: &str) {
        let agent = self.state().agent;
        // If this fails, the hooks also report the prompts.
        let add = |takeover: &Takeover| takeover.add_session(agent, session);
        let _ = self.takeover.as_ref().map(add);
    }

    /// Reports a session that has begun. Returns the message that tells the editor which slash
    /// commands the session has.
    fn start_session(&self, session: &str, outcome: &Outcome) -> Vec<u8> {
        let mut state = self.state();
        let model = outcome.models.as_ref().and_then(|models| models.current_model_id.clone());
        let known = state.session(session);
        known.model = model.or_else(|| known.model.take());
        let commands = known.commands.merged();
        let report = state.report(session, ReportedEvent::SessionStart);
        let offers = state.is_first_version();
        drop(state);
        self.report_later(report);
        if !offers {
            return Vec::new();
        }
        let session = json!(session);
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":{session},\
             \"update\":{{\"sessionUpdate\":\"available_commands_update\",\
             \"availableCommands\":{commands}}}}}}}\n"
        )
        .into_bytes()
    }

    /// Reports the end of a turn, before the editor learns about it.
    fn end_turn(&self, session: &str, outcome: &Outcome) {
        let mut state = self.state();
        // In the second version of the protocol, the answer says only that the prompt has arrived.
        let has_turns = state.is_first_version();
        let known = state.session(session);
        known.prompts = known.prompts.saturating_sub(1);
        let is_over = known.prompts == 0 && has_turns;
        if is_over {
            known.calls.clear();
        }
        let mut events = state.take_messages(session, now());
        events.extend(state.take_usage(session, outcome.usage));
        let report = state.report(session, ReportedEvent::TurnEnd);
        drop(state);
        self.recorder.wait_for(move |worker, _| {
            worker.record(&events);
            if is_over {
                worker.report(&report, None);
            }
        });
    }

    fn hear_update(&self, session: &str, params: &Params<'_>, line: &[u8]) -> Passage {
        let Some((raw, update)) = params.update.and_then(|raw| Some((raw, Update::parse(raw)?)))
        else {
            return Passage::Unchanged;
        };
        match update.session_update.as_str() {
            "available_commands_update" => return self.merge_commands(session, &update, line),
            _ if self.state().session(session).is_loading => {}
            "agent_message_chunk" => self.hear_chunk(session, &update, false),
            "agent_thought_chunk" => self.hear_chunk(session, &update, true),
            kind @ ("tool_call" | "tool_call_update") => {
                let update: Option<CallUpdate> = serde_json::from_str(raw.get()).ok();
                update.into_iter().for_each(|update| self.hear_call(session, update, kind));
            }
            "usage_update" => {
                let cost = update.cost.filter(|cost| matches!(cost.currency.as_str(), "" | "USD"));
                let mut state = self.state();
                let known = state.session(session);
                known.cost = cost.map(|cost| cost.amount).or(known.cost);
            }
            _ => {}
        }
        Passage::Unchanged
    }

    /// Adds takeback's commands to those of the agent.
    fn merge_commands(&self, session: &str, update: &Update<'_>, line: &[u8]) -> Passage {
        let Some(list) = update.available_commands else { return Passage::Unchanged };
        let Some(commands) = AgentCommands::read(list) else { return Passage::Unchanged };
        let merged = commands.merged();
        let mut state = self.state();
        let offers = state.is_first_version();
        state.session(session).commands = commands;
        let changed = offers.then(|| splice(line, list.get(), merged.as_bytes())).flatten();
        changed.map_or(Passage::Unchanged, Passage::Changed)
    }

    /// Records a part of the agent's answer or reasoning.
    fn hear_chunk(&self, session: &str, update: &Update<'_>, is_thought: bool) {
        let Some(text) = update.content.and_then(block_text) else { return };
        let id = update.message_id.as_deref();
        let mut state = self.state();
        if !is_thought && state.session(session).draft.is_over(id) {
            let events = state.take_messages(session, now());
            self.recorder.submit(move |worker| worker.record(&events));
        }
        state.session(session).draft.push(id, &text, is_thought);
    }

    /// Records an update from the agent about a call, and reports the beginning and the end of the
    /// call.
    fn hear_call(&self, session: &str, update: CallUpdate, kind: &str) {
        let id = update.tool_call_id.clone();
        let mut state = self.state();
        let has_turns = state.is_first_version();
        let known = state.session(session);
        // Updates about the calls of past turns are ignored.
        let is_past = has_turns && known.prompts == 0 && kind != "tool_call";
        if id.is_empty() || (is_past && !known.calls.contains_key(&id)) {
            return;
        }
        if kind == "tool_call" {
            let events = state.take_messages(session, now());
            self.recorder.submit(move |worker| worker.record(&events));
        }
        let known = state.session(session);
        let directory = known.directory.clone();
        let call = known.calls.entry(id.clone()).or_default();
        call.apply(update);
        if call.is_ended {
            return;
        }
        let tool_call = call.to_tool_call(&id, &directory);
        let outcome = call.outcome();
        call.is_ended = outcome.is_some();
        let is_new = call.is_informed() && call.reported.as_ref() != Some(&tool_call.work);
        let hooks = self.hook_reports(session);
        let reports_it = match hooks {
            HookReports::Nothing => true,
            // Until the call has ended, a hook may still report it.
            HookReports::NoCallYet => known.hooks_are_silent || outcome.is_some(),
            // If no hook has reported the call, but the proxy has reported its beginning, the proxy
            // also has to report its end.
            HookReports::Calls => call.reported.is_some() && !self.is_call_of_hooks(session, &id),
        };
        if !reports_it {
            return;
        }
        let mut reports = Vec::new();
        if is_new && hooks != HookReports::Calls {
            call.reported = Some(tool_call.work.clone());
            reports.push(ReportedEvent::BeforeTool(tool_call.clone()));
        }
        if let Some(outcome) = outcome {
            known.hooks_are_silent |= hooks == HookReports::NoCallYet;
            let outcome = Some(outcome.to_owned());
            reports.push(ReportedEvent::AfterTool { call: tool_call, outcome });
        }
        let reports: Vec<Report> =
            reports.into_iter().map(|event| state.report(session, event)).collect();
        drop(state);
        reports.into_iter().for_each(|report| self.report_later(report));
    }

    /// Returns what the agent's own hooks have reported in a session.
    fn hook_reports(&self, session: &str) -> HookReports {
        let takeover = self.takeover.as_ref();
        takeover.map_or(HookReports::Nothing, |takeover| takeover.hook_reports(session))
    }

    /// Returns true if a hook has reported a call under this id.
    fn is_call_of_hooks(&self, session: &str, call: &str) -> bool {
        self.takeover.as_ref().is_some_and(|takeover| takeover.has_call(session, call))
    }

    /// Builds the report about a call that is about to be made. `change` adds what the request says
    /// about the call. Returns `None` if the agent's hooks report the call, under another id.
    pub(super) fn report_of_call(
        &self,
        name: &CallName,
        change: impl FnOnce(&mut CallState),
    ) -> Option<Report> {
        if self.hook_reports(&name.session) == HookReports::Calls
            && !self.is_call_of_hooks(&name.session, &name.call)
        {
            return None;
        }
        let mut state = self.state();
        let known = state.session(&name.session);
        let directory = known.directory.clone();
        let call = known.calls.entry(name.call.clone()).or_default();
        change(call);
        call.is_granted = true;
        let tool_call = call.to_tool_call(&name.call, &directory);
        call.reported = Some(tool_call.work.clone());
        Some(state.report(&name.session, ReportedEvent::BeforeTool(tool_call)))
    }

    /// Reports the end of a call. Does nothing if the beginning of the call has not been reported,
    /// or its end has already been reported.
    pub(super) fn end_call(&self, name: &CallName, is_success: bool) {
        let mut state = self.state();
        let known = state.session(&name.session);
        let directory = known.directory.clone();
        let Some(call) = known.calls.get_mut(&name.call) else { return };
        if call.is_ended || call.reported.is_none() {
            return;
        }
        call.is_ended = true;
        let call = call.to_tool_call(&name.call, &directory);
        let outcome = Some(if is_success { "ok" } else { "error" }.to_owned());
        let report = state.report(&name.session, ReportedEvent::AfterTool { call, outcome });
        drop(state);
        self.report_later(report);
    }

    /// Finds the announced call that a request of the agent belongs to. If there is none, makes up
    /// a name, so that the request becomes a call of its own, and returns true as the second value.
    fn find_call(
        &self,
        session: &str,
        message: &Envelope<'_>,
        belongs: impl Fn(&CallState, &Path) -> bool,
    ) -> (CallName, bool) {
        let mut state = self.state();
        let known = state.session(session);
        let directory = known.directory.clone();
        let mut open = known.calls.iter().filter(|(_, call)| !call.is_ended);
        let found = open.find(|(_, call)| belongs(call, &directory)).map(|(id, _)| id.clone());
        let is_own = found.is_none();
        let method = message.method.as_deref().unwrap_or_default();
        let id = message.key().unwrap_or_default();
        let own = || format!("{method} {}", id.trim_start_matches('"'));
        let call = found.unwrap_or_else(own);
        (CallName { session: session.to_owned(), call }, is_own)
    }

    /// Takes a checkpoint before the editor writes a file for the agent.
    fn hear_write(&self, session: &str, message: &Envelope<'_>, params: &Params<'_>) -> Passage {
        let (Some(path), Some(key)) = (&params.path, message.key()) else {
            return Passage::Unchanged;
        };
        let path = PathBuf::from(path);
        let (name, is_own) =
            self.find_call(session, message, |call, directory| call.names(&path, directory));
        let report = self.report_of_call(&name, |call| {
            if is_own {
                call.apply_own("fs/write_text_file", "edit");
            }
            call.written.push(path);
        });
        self.request_in_time(
            message,
            report,
            &name,
            |call| AgentRequest::Write { call, is_own },
            key,
        )
    }

    /// Takes a checkpoint before the editor runs a command for the agent.
    fn hear_terminal(&self, session: &str, message: &Envelope<'_>, params: &Params<'_>) -> Passage {
        let (Some(script), Some(key)) = (terminal_script(params), message.key()) else {
            return Passage::Unchanged;
        };
        let is_free = |call: &CallState, _: &Path| call.kind == "execute" && call.script.is_none();
        let (name, is_own) = self.find_call(session, message, is_free);
        let report = self.report_of_call(&name, |call| {
            if is_own {
                call.apply_own("terminal/create", "execute");
            }
            call.script = Some(script);
        });
        self.request_in_time(message, report, &name, |call| AgentRequest::Terminal { call }, key)
    }

    /// Reports a request before the editor gets it. Returns [`Passage::Kept`] if the request is
    /// refused.
    fn request_in_time(
        &self,
        message: &Envelope<'_>,
        report: Option<Report>,
        name: &CallName,
        request: impl FnOnce(CallName) -> AgentRequest,
        key: String,
    ) -> Passage {
        let Some(report) = report else { return Passage::Unchanged };
        let answered = self.report_in_time(report);
        self.warn(&name.session, answered.warning.as_deref());
        if let Some(refusal) = answered.refusal {
            self.refuse_agent(message, &refusal);
            self.end_call(name, false);
            return Passage::Kept;
        }
        self.state().of_agent.insert(key, request(name.clone()));
        Passage::Unchanged
    }

    /// Records that the agent is waiting for a command to end, or that it no longer needs the
    /// command.
    fn hear_terminal_end(&self, method: &str, message: &Envelope<'_>, params: &Params<'_>) {
        let mut state = self.state();
        let terminal = params.terminal_id.as_deref().unwrap_or_default();
        let Some(call) = state.terminals.get(terminal).cloned() else { return };
        // If the agent announced the call, the agent itself reports its end.
        if !call.call.starts_with("terminal/create ") {
            return;
        }
        match (method, message.key()) {
            ("terminal/release", _) => {
                state.terminals.remove(terminal);
                drop(state);
                self.end_call(&call, true);
            }
            (_, Some(key)) => {
                state.of_agent.insert(key, AgentRequest::TerminalExit { call });
            }
            _ => {}
        }
    }

    /// Records that the agent is asking the user for permission.
    fn hear_question(&self, session: &str, message: &Envelope<'_>, params: &Params<'_>) {
        let update = params.tool_call.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let update: Option<CallUpdate> = update;
        let (Some(update), Some(key)) = (update, message.key()) else { return };
        let call = update.tool_call_id.clone();
        let mut state = self.state();
        state.session(session).calls.entry(call.clone()).or_default().apply(update);
        let call = CallName { session: session.to_owned(), call };
        let options = params.options.clone().unwrap_or_default();
        state.of_agent.insert(key, AgentRequest::Permission { call, options });
    }
}

/// Returns the script that a request for a terminal runs. If the request names a directory, the
/// script changes to that directory first.
fn terminal_script(params: &Params<'_>) -> Option<String> {
    let command = params.command.as_deref()?;
    let words = params.args.as_deref().unwrap_or_default();
    // Without arguments, the editor passes the command to a shell.
    let script = match words {
        [] => command.to_owned(),
        words => {
            let words = std::iter::once(command).chain(words.iter().map(String::as_str));
            let words: Vec<&str> = words.collect();
            takeback_undo::hook::find_script(&json!({ "command": words }))?
        }
    };
    Some(match &params.cwd {
        Some(directory) => format!("cd {} && {script}", quote_word(directory)),
        None => script,
    })
}
