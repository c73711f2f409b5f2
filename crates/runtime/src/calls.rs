//! The steps that make tool calls.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use takeback_ledger::{Event, MessageRecord};
use takeback_undo::shell::{ScriptAnalysis, ScriptContext, analyze_script};
use takeback_undo::{HistoryProtection, ReportedEvent, ToolCall, ToolWork};

use crate::agent::Agent;
use crate::approval::{self, ApprovalMode, ApprovalRequest, Decision};
use crate::entry::{Bill, CallStart, Entry};
use crate::error::TaskError;
use crate::front_end::{Answer, FrontEnd, Question, TurnEvent};
use crate::goal::FINISH_GOAL;
use crate::model::RequestedCall;
use crate::state::CallProgress;
use crate::task::{Task, new_message};
use crate::tools::{Tool, ToolContext, ToolOutput};

/// A call whose tool and input are known.
struct KnownCall<'a> {
    call: RequestedCall,
    tool: &'a dyn Tool,
    input: Value,
    work: ToolWork,
    analysis: Option<ScriptAnalysis>,
}

/// The result of taking a checkpoint before a call.
#[derive(Default)]
struct Protected {
    /// The tree of the workspace.
    tree: Option<String>,
    /// The reason why the call must not be made.
    refusal: Option<String>,
    /// The events that the next append writes into the ledger.
    events: Vec<Event>,
}

impl Task {
    fn call(&self, index: usize) -> &crate::state::CallState {
        let turn = self.state.turn.as_ref().expect("a call is part of a turn");
        &turn.calls[index]
    }

    fn turn_number(&self) -> i64 {
        self.state.turn.as_ref().map_or(0, |turn| turn.number)
    }

    /// Makes a call, or asks the user about it first.
    pub(crate) fn make_call(
        &mut self,
        index: usize,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let agent = self.agent.clone();
        let state = self.call(index).clone();
        if state.call.name == FINISH_GOAL && self.goal.is_some() {
            return self.finish_goal(&state.call, front);
        }
        let known = match self.understand(&agent, &state.call, front) {
            Ok(known) => known,
            Err(output) => return self.end_call(&state.call, output, front),
        };
        if state.progress == CallProgress::Requested {
            match self.decide(&known) {
                Decision::Run => {}
                Decision::Ask { because, remember } => {
                    let call = state.call.id;
                    let asked = Entry::Asked { call, because, remember };
                    return self.append(&[], |_| vec![asked.clone()]);
                }
                Decision::Refuse { because } => {
                    return self.end_call(
                        &state.call,
                        ToolOutput::error(format!("this call {because}")),
                        front,
                    );
                }
            }
        }
        self.run_call(&known, front)
    }

    /// Repeats a call that was interrupted before it changed anything.
    pub(crate) fn repeat_call(
        &mut self,
        index: usize,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let agent = self.agent.clone();
        let call = self.call(index).call.clone();
        match self.understand(&agent, &call, front) {
            Ok(known) => self.run_call(&known, front),
            Err(output) => self.end_call(&call, output, front),
        }
    }

    /// Finds the tool of a call and parses its input. If that fails, returns the result from which
    /// the model learns the reason.
    fn understand<'a>(
        &self,
        agent: &'a Arc<Agent>,
        call: &RequestedCall,
        front: &dyn FrontEnd,
    ) -> Result<KnownCall<'a>, ToolOutput> {
        let Some(tool) = agent.tools.get(&call.name) else {
            let names: Vec<String> = self.tool_specs().into_iter().map(|spec| spec.name).collect();
            return Err(ToolOutput::unusable(format!(
                "no tool named {:?}; the tools are {}",
                call.name,
                names.join(", ")
            )));
        };
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let input: Value = serde_json::from_str(arguments).map_err(|error| {
            let name = &call.name;
            ToolOutput::unusable(format!("the input of {name} is not valid JSON: {error}"))
        })?;
        if !self.directory.is_dir() {
            let directory = self.directory.display();
            return Err(ToolOutput::error(format!("the directory {directory} does not exist")));
        }
        let on_output = |text: &str| front.show(&TurnEvent::CallOutput { call: &call.id, text });
        let work = tool.work(&input, &self.tool_context(&on_output));
        let analysis = match &work {
            ToolWork::Shell { script, .. } => Some(self.analyze(script)),
            ToolWork::Changes { script: Some(script), .. } => Some(self.analyze(script)),
            _ => None,
        };
        Ok(KnownCall { call: call.clone(), tool, input, work, analysis })
    }

    fn analyze(&self, script: &str) -> ScriptAnalysis {
        let workspace = self.workspace();
        let context = ScriptContext {
            directory: &self.directory,
            workspace: &workspace,
            home: self.agent.user_home.as_deref(),
        };
        analyze_script(script, &context)
    }

    /// Returns the root of the workspace, or the agent's directory if that directory cannot be a
    /// workspace.
    fn workspace(&self) -> PathBuf {
        self.agent.opened.find_root(&self.directory).unwrap_or_else(|_| self.directory.clone())
    }

    fn tool_context<'a>(&'a self, on_output: &'a (dyn Fn(&str) + Sync)) -> ToolContext<'a> {
        ToolContext {
            directory: &self.directory,
            known_files: &self.state.known_files,
            cancel: &self.cancel,
            on_output,
        }
    }

    fn decide(&self, known: &KnownCall<'_>) -> Decision {
        let paths = known.tool.paths(&known.input, &self.tool_context(&|_| {}));
        approval::decide(&ApprovalRequest {
            mode: self.agent.approval,
            tool: &known.call.name,
            input: &known.input,
            work: &known.work,
            paths: &paths,
            analysis: known.analysis.as_ref(),
            directory: &self.directory,
            workspace: &self.workspace(),
            is_covered: self.agent.has_checkpoints,
            remembered: &self.state.allowed,
        })
    }

    /// Takes a checkpoint, runs the tool, and records the result.
    fn run_call(&mut self, known: &KnownCall<'_>, front: &dyn FrontEnd) -> Result<(), TaskError> {
        front.show(&TurnEvent::CallStarted { call: &known.call, subagent: None });
        let reads = !known.may_change_files();
        let reported = ToolCall {
            id: Some(known.call.id.clone()),
            tool: known.call.name.clone(),
            input: known.input.clone(),
            work: known.work.clone(),
        };
        let has_effects = known.has_effects();
        // A call that only reads and has no effects needs neither a checkpoint nor an entry for its
        // start: after a crash, it is simply repeated.
        if !reads || has_effects {
            let Protected { tree, refusal, events } = self.protect(&reported, front);
            if let Some(refusal) = refusal {
                let output = ToolOutput::error(refusal);
                return self.end_reported_call(&known.call, output, events, front);
            }
            let intent = known.tool.intent(&known.input, &self.tool_context(&|_| {}));
            let start = CallStart { reads, has_effects, tree, intent };
            let started = Entry::Started { call: known.call.id.clone(), start };
            self.append(&events, |_| vec![started.clone()])?;
        }
        let output = {
            let id = &known.call.id;
            let on_output = |text: &str| front.show(&TurnEvent::CallOutput { call: id, text });
            known.tool.run(&known.input, &self.tool_context(&on_output))
        };
        // The call may have been cut off. The process that continues the turn will determine its
        // outcome.
        if self.cancel.is_suspended() && self.cancel.is_cancelled() {
            return Ok(());
        }
        self.finish_call(&known.call, reported, output, front)
    }

    /// Takes a checkpoint before a call.
    fn protect(&self, reported: &ToolCall, front: &dyn FrontEnd) -> Protected {
        let event = ReportedEvent::BeforeTool(reported.clone());
        let report = self.new_report(event.clone(), self.turn_number());
        let tampering = takeback_undo::hook::find_tampering(&self.agent.opened, &report);
        let is_refused = self.agent.opened.protection().history == HistoryProtection::Refuse;
        if let Some(first) = tampering.first().filter(|_| is_refused) {
            let refusal = Some(format!("takeback refuses this call: {first}"));
            return Protected { refusal, ..Protected::default() };
        }
        if !self.agent.has_checkpoints {
            return Protected::default();
        }
        let (handled, events) = self.report(event, self.turn_number());
        self.note_tree(handled.tree.map(|tree| tree.to_string()));
        let lost: Vec<String> = handled
            .unprotected
            .iter()
            .filter(|lost| lost.is_new)
            .map(ToString::to_string)
            .collect();
        if self.agent.opened.settings().strict && (handled.missed || !lost.is_empty()) {
            let problems = handled.failures.iter().chain(&lost).cloned().collect::<Vec<_>>();
            let problems = problems.join("; ");
            let refusal = Some(format!("takeback cannot protect this call: {problems}"));
            return Protected { tree: None, refusal, events };
        }
        for problem in lost.iter().chain(&handled.failures) {
            front.show(&TurnEvent::Warning(&format!("not protected: {problem}")));
        }
        Protected { tree: handled.tree.map(|tree| tree.to_string()), refusal: None, events }
    }

    /// Remembers the state of the workspace for the journal that machines share.
    fn note_tree(&self, tree: Option<String>) {
        if let (Some(shared), Some(tree)) = (&self.agent.shared, tree) {
            shared.note_tree(&self.directory, tree);
        }
    }

    /// Reports the end of a call, and records its result.
    pub(crate) fn finish_call(
        &mut self,
        call: &RequestedCall,
        reported: ToolCall,
        output: ToolOutput,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let mut events = Vec::new();
        if self.agent.has_checkpoints {
            let outcome = Some(if output.is_error { "error" } else { "ok" }.to_owned());
            let event = ReportedEvent::AfterTool { call: reported, outcome };
            (_, events) = self.report(event, self.turn_number());
            let tree = events.iter().find_map(|event| match event {
                Event::Call { call, .. } => call.tree_after.clone(),
                _ => None,
            });
            self.note_tree(tree);
        }
        self.end_reported_call(call, output, events, front)
    }

    /// Records the result of a call, without reporting the end of the call.
    pub(crate) fn end_call(
        &mut self,
        call: &RequestedCall,
        output: ToolOutput,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        self.end_reported_call(call, output, Vec::new(), front)
    }

    /// Records the result of a call, and the events of its report.
    fn end_reported_call(
        &mut self,
        call: &RequestedCall,
        output: ToolOutput,
        events: Vec<Event>,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        front.show(&TurnEvent::CallEnded { call, output: &output, subagent: None });
        self.record_result(call, output, Bill::default(), events)
    }

    /// Adds the result of a call to the conversation, in the same append as other events.
    pub(crate) fn record_result(
        &mut self,
        call: &RequestedCall,
        output: ToolOutput,
        bill: Bill,
        mut events: Vec<Event>,
    ) -> Result<(), TaskError> {
        events.push(self.result_event(call, output.text));
        let ToolOutput { is_error, known_files, is_unusable, .. } = output;
        self.append(&events, |messages| {
            let message = messages.first().expect("the result is a message").seq;
            let (call, known_files) = (call.id.clone(), known_files.clone());
            vec![Entry::Ended { call, message, is_error, is_unusable, known_files, bill }]
        })
    }

    /// Describes the message with the result of a call.
    pub(crate) fn result_event(&self, call: &RequestedCall, text: String) -> Event {
        let message = MessageRecord {
            tool_call_id: Some(call.id.clone()),
            tool_name: Some(call.name.clone()),
            ..new_message("tool", text)
        };
        Event::Messages { session: self.session.id.clone(), messages: vec![message] }
    }

    /// Asks the user about a call. Returns false if no user can answer now.
    pub(crate) fn approve_call(
        &mut self,
        index: usize,
        front: &dyn FrontEnd,
    ) -> Result<bool, TaskError> {
        let state = self.call(index).clone();
        let CallProgress::Asked { because, remember } = &state.progress else { return Ok(true) };
        let remember = remember.as_deref();
        let answer = match self.agent.approval {
            // The user has chosen another mode since the question was asked.
            ApprovalMode::Auto => Answer::Allow,
            ApprovalMode::Never => Answer::Deny(approval::NO_USER.to_owned()),
            _ => front.approve(&Question { call: &state.call, because, remember }),
        };
        if answer == Answer::Later {
            return Ok(false);
        }
        let answered = Entry::Answered { call: state.call.id, answer };
        self.append(&[], |_| vec![answered.clone()])?;
        Ok(true)
    }

    /// Tells the model why a call is not made.
    pub(crate) fn refuse_call(
        &mut self,
        index: usize,
        front: &dyn FrontEnd,
    ) -> Result<(), TaskError> {
        let state = self.call(index).clone();
        let CallProgress::Refused(reason) = state.progress else { return Ok(()) };
        self.end_call(&state.call, ToolOutput::error(reason), front)
    }
}

impl KnownCall<'_> {
    fn may_change_files(&self) -> bool {
        match (&self.work, &self.analysis) {
            (ToolWork::Reads, _) => false,
            (ToolWork::Shell { .. }, Some(analysis)) => analysis.mutates,
            _ => true,
        }
    }

    fn has_effects(&self) -> bool {
        self.analysis.as_ref().is_some_and(|analysis| !analysis.effects.is_empty())
    }
}
