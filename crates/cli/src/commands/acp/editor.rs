//! Handles the editor's messages: prompts, slash commands, and answers to the agent.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::json;
use serde_json::value::RawValue;
use takeback_undo::ReportedEvent;

use super::commands::fence;
use super::message::{
    Envelope, Outcome, Params, PermissionOption, plain_text, prompt_text, splice,
};
use super::proxy::{Passage, Proxy, agent_text};
use super::session::{AgentRequest, CallName, EditorRequest};
use crate::slash::SlashLine;

impl Proxy {
    /// Records the content of a message from the editor. Returns how to pass the message on.
    pub(super) fn hear_editor(self: &Arc<Proxy>, message: &Envelope<'_>, line: &[u8]) -> Passage {
        if message.is_response() {
            return self.hear_answer(message, line);
        }
        let Some(method) = message.method.as_deref() else { return Passage::Unchanged };
        let mut params = message.params().unwrap_or_default();
        let Some(key) = message.key() else { return Passage::Unchanged };
        let directory = || PathBuf::from(params.cwd.clone().unwrap_or_default());
        let request = match (method, params.session_id.clone()) {
            ("initialize", _) => {
                let name = params.client_info.take().map(|info| info.name).unwrap_or_default();
                self.recorder.submit(move |worker| worker.note_editor(&name));
                EditorRequest::Initialize
            }
            ("session/new", _) => EditorRequest::NewSession { directory: directory() },
            ("session/load" | "session/resume", Some(session)) => {
                let replays = method == "session/load";
                self.begin_session(&session, &directory(), replays);
                EditorRequest::LoadSession { session }
            }
            ("session/fork", _) => EditorRequest::NewSession { directory: directory() },
            ("session/close", Some(session)) => EditorRequest::CloseSession { session },
            ("session/prompt", Some(session)) => {
                return self.hear_prompt(&session, &key, message, &params, line);
            }
            _ => return Passage::Unchanged,
        };
        self.state().of_editor.insert(key, request);
        Passage::Unchanged
    }

    /// Answers a prompt if it is one of takeback's slash commands. Otherwise, takes a checkpoint
    /// before the agent gets the prompt.
    fn hear_prompt(
        self: &Arc<Proxy>,
        session: &str,
        key: &str,
        message: &Envelope<'_>,
        params: &Params<'_>,
        line: &[u8],
    ) -> Passage {
        let blocks = params.prompt.as_deref().unwrap_or_default();
        if self.answer_slash(session, message, blocks) {
            return Passage::Kept;
        }
        let text = prompt_text(blocks);
        // Add no notice to a slash command of the agent, because the agent would no longer
        // recognize it.
        let wants_notice = !blocks.is_empty() && !text.trim_start().starts_with('/');
        let since = Instant::now();
        let (report, ledger_id) = {
            let mut state = self.state();
            state
                .of_editor
                .insert(key.to_owned(), EditorRequest::Prompt { session: session.to_owned() });
            state.session(session).prompts += 1;
            let event = ReportedEvent::BeforePrompt { prompt: Some(text) };
            (state.report(session, event), state.ledger_id(session))
        };
        self.take_over(session);
        let answered = self.recorder.wait_for(move |worker, is_awaited| {
            let mut answered = worker.report(&report, Some(since));
            // Taking notices removes them, so take them only if there is a prompt to add them to.
            if wants_notice && is_awaited.load(Ordering::SeqCst) {
                answered.notice = worker.take_notices(&ledger_id);
            }
            answered
        });
        let changed = answered.notice.and_then(|notice| add_block(line, message, &notice));
        changed.map_or(Passage::Unchanged, Passage::Changed)
    }

    /// Answers a prompt if it is a slash command of takeback. Returns false for all other prompts.
    fn answer_slash(
        self: &Arc<Proxy>,
        session: &str,
        message: &Envelope<'_>,
        blocks: &[&RawValue],
    ) -> bool {
        let Some(text) = plain_text(blocks) else { return false };
        let (typed, is_busy, directory, ledger_id) = {
            let mut state = self.state();
            let is_answerable = state.is_first_version();
            let ledger_id = state.ledger_id(session);
            let known = state.session(session);
            let typed = known.commands.find_line(&text).filter(|_| is_answerable);
            (typed, known.prompts > 0, known.directory.clone(), ledger_id)
        };
        let (Some(typed), Some(id)) = (typed, message.id) else { return false };
        let (proxy, session, id) = (self.clone(), session.to_owned(), id.to_owned());
        self.recorder.submit(move |worker| {
            let line = SlashLine {
                text: &typed,
                session: Some(&ledger_id),
                model: None,
                is_headless: false,
                is_busy,
            };
            let answer = worker.answer_slash(&line, &directory);
            proxy.tell_editor(&agent_text(&session, &fence(&answer.text)));
            let result = json!({ "stopReason": "end_turn" });
            proxy.tell_editor(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        });
        true
    }

    /// Records the editor's answer to a request from the agent.
    fn hear_answer(&self, message: &Envelope<'_>, line: &[u8]) -> Passage {
        let request = message.key().and_then(|key| self.state().of_agent.remove(&key));
        let Some(request) = request else { return Passage::Unchanged };
        let outcome = message.outcome();
        match request {
            AgentRequest::Permission { call, options } => {
                if is_granted(&outcome, &options)
                    && let Some(refusal) = self.begin_granted(&call)
                {
                    self.warn(&call.session, Some(&refusal));
                    return refuse(message, line, &options);
                }
            }
            AgentRequest::Write { call, is_own } => {
                if is_own {
                    self.end_call(&call, message.error.is_none());
                }
            }
            AgentRequest::Terminal { call } => match outcome.terminal_id {
                Some(terminal) => drop(self.state().terminals.insert(terminal, call)),
                None => self.end_call(&call, false),
            },
            AgentRequest::TerminalExit { call } => self.end_call(&call, message.error.is_none()),
        }
        Passage::Unchanged
    }

    /// Takes a checkpoint before a call that the user has just allowed. If the call must not be
    /// made after all, returns the reason.
    fn begin_granted(&self, name: &CallName) -> Option<String> {
        let report = self.report_of_call(name, |_| {})?;
        let answered = self.report_in_time(report);
        self.warn(&name.session, answered.warning.as_deref());
        answered.refusal
    }
}

/// Returns true if the user allowed a call.
fn is_granted(outcome: &Outcome, options: &[PermissionOption]) -> bool {
    let chosen = outcome.outcome.as_ref().and_then(|outcome| outcome.option_id.as_deref());
    let is_rejection = |option: &&PermissionOption| option.kind.starts_with("reject");
    let rejections = options.iter().filter(is_rejection).map(|option| option.option_id.as_str());
    chosen.is_some_and(|chosen| !rejections.into_iter().any(|option| option == chosen))
}

/// Turns the user's permission into a rejection.
fn refuse(message: &Envelope<'_>, line: &[u8], options: &[PermissionOption]) -> Passage {
    let rejection = options.iter().find(|option| option.kind == "reject_once");
    let outcome = match rejection {
        Some(option) => json!({ "outcome": "selected", "optionId": option.option_id }),
        None => json!({ "outcome": "cancelled" }),
    };
    let result = json!({ "outcome": outcome }).to_string();
    let changed = message.result.and_then(|old| splice(line, old.get(), result.as_bytes()));
    changed.map_or(Passage::Unchanged, Passage::Changed)
}

/// Adds a block of text to the end of a prompt. All other bytes stay the same.
fn add_block(line: &[u8], message: &Envelope<'_>, text: &str) -> Option<Vec<u8>> {
    #[derive(serde::Deserialize)]
    struct Prompt<'a> {
        #[serde(borrow)]
        prompt: &'a RawValue,
    }
    let prompt: Prompt<'_> = serde_json::from_str(message.params?.get()).ok()?;
    let blocks = prompt.prompt.get().strip_suffix(']')?;
    let block = json!({ "type": "text", "text": text });
    splice(line, prompt.prompt.get(), format!("{blocks},{block}]").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_added_to_the_end_of_a_prompt() {
        let line = br#"{"id":1, "params":{"prompt": [ {"type":"text","text":"[hi]"} ] ,"_x":1}}"#;
        let message = Envelope::parse(line).unwrap();
        let changed = String::from_utf8(add_block(line, &message, "note").unwrap()).unwrap();
        assert_eq!(
            changed,
            r#"{"id":1, "params":{"prompt": [ {"type":"text","text":"[hi]"} ,{"text":"note","type":"text"}] ,"_x":1}}"#
        );
    }

    #[test]
    fn a_permission_is_granted_unless_the_user_rejects_it() {
        let options = r#"[{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"},{"optionId":"x"}]"#;
        let options: Vec<PermissionOption> = serde_json::from_str(options).unwrap();
        let answer = |result: &str| {
            let line = format!(r#"{{"id":1,"result":{result}}}"#);
            is_granted(&Envelope::parse(line.as_bytes()).unwrap().outcome(), &options)
        };
        assert!(answer(r#"{"outcome":{"outcome":"selected","optionId":"a"}}"#));
        assert!(answer(r#"{"outcome":{"outcome":"selected","optionId":"x"}}"#));
        assert!(!answer(r#"{"outcome":{"outcome":"selected","optionId":"r"}}"#));
        assert!(!answer(r#"{"outcome":{"outcome":"cancelled"}}"#));
        assert!(!answer("{}"));
    }

    #[test]
    fn a_refused_permission_becomes_a_rejection() {
        let line = br#"{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"a"}},"_x":2}"#;
        let options = r#"[{"optionId":"r","kind":"reject_once"}]"#;
        let options: Vec<PermissionOption> = serde_json::from_str(options).unwrap();
        let message = Envelope::parse(line).unwrap();
        let Passage::Changed(changed) = refuse(&message, line, &options) else { panic!() };
        let expected =
            br#"{"id":1,"result":{"outcome":{"optionId":"r","outcome":"selected"}},"_x":2}"#;
        assert_eq!(changed, expected);
    }
}
