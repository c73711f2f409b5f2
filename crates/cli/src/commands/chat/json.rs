//! Shows turns as JSON Lines, for other programs.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};
use takeback_runtime::model::RequestedCall;
use takeback_runtime::{Answer, FrontEnd, Question, TurnEvent};

use crate::output::disarm_json;

/// A front end that writes each event as one line. It answers no questions: the turn waits instead.
pub(crate) struct JsonFrontEnd {
    out: Mutex<Box<dyn Write + Send>>,
}

impl JsonFrontEnd {
    /// Creates a front end on standard output.
    pub(crate) fn new() -> JsonFrontEnd {
        JsonFrontEnd::on(Box::new(io::stdout()))
    }

    fn on(out: Box<dyn Write + Send>) -> JsonFrontEnd {
        JsonFrontEnd { out: Mutex::new(out) }
    }

    fn write(&self, value: &Value) {
        let line = disarm_json(&value.to_string()) + "\n";
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // If the reader is gone, the turn continues: its result is in the ledger.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

impl FrontEnd for JsonFrontEnd {
    fn show(&self, event: &TurnEvent<'_>) {
        self.write(&to_json(event));
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        let mut fields = call_fields("question", question.call, None);
        fields.insert("because".into(), question.because.into());
        fields.insert("remember".into(), question.remember.into());
        self.write(&Value::Object(fields));
        Answer::Later
    }
}

fn to_json(event: &TurnEvent<'_>) -> Value {
    match event {
        TurnEvent::Text(text) => json!({ "event": "text", "text": text }),
        TurnEvent::Reasoning(text) => json!({ "event": "reasoning", "text": text }),
        TurnEvent::CallStarted { call, subagent } => {
            Value::Object(call_fields("call_started", call, *subagent))
        }
        TurnEvent::CallOutput { call, text } => {
            json!({ "event": "call_output", "call": call, "text": text })
        }
        TurnEvent::CallEnded { call, output, subagent } => {
            let mut fields = call_fields("call_ended", call, *subagent);
            fields.insert("output".into(), output.text.clone().into());
            fields.insert("is_error".into(), output.is_error.into());
            Value::Object(fields)
        }
        TurnEvent::Retrying { because, wait } => {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            json!({ "event": "retrying", "because": because, "wait_ms": wait })
        }
        TurnEvent::Continuing { because } => json!({ "event": "continuing", "because": because }),
        TurnEvent::FailedOver { because, provider } => {
            json!({ "event": "failed_over", "because": because, "provider": provider })
        }
        TurnEvent::Compressed { session } => json!({ "event": "compressed", "session": session }),
        TurnEvent::Warning(text) => json!({ "event": "warning", "text": text }),
        TurnEvent::TurnEnded { outcome, tokens, cost } => {
            let outcome = serde_json::to_value(outcome).expect("plain data becomes JSON");
            let mut fields = match outcome {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            fields.insert("event".into(), "turn_ended".into());
            fields.insert("tokens".into(), json!(tokens));
            fields.insert("cost".into(), json!(cost));
            Value::Object(fields)
        }
    }
}

/// Returns the fields that all events about a call share. The field `input` is the call's parsed
/// input, or its text if the text is not valid JSON.
fn call_fields(event: &str, call: &RequestedCall, subagent: Option<usize>) -> Map<String, Value> {
    let input = serde_json::from_str(&call.arguments);
    let input = input.unwrap_or_else(|_| Value::from(call.arguments.as_str()));
    let fields = json!({ "event": event, "call": call.id, "tool": call.name, "input": input });
    let Value::Object(mut fields) = fields else { return Map::new() };
    if let Some(number) = subagent {
        fields.insert("subagent".into(), number.into());
    }
    fields
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use takeback_ledger::Tokens;
    use takeback_runtime::TurnOutcome;
    use takeback_runtime::tools::ToolOutput;

    use super::*;

    #[derive(Clone, Default)]
    struct Tape(Arc<Mutex<Vec<u8>>>);

    impl Write for Tape {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_event_is_one_line() {
        let tape = Tape::default();
        let front = JsonFrontEnd::on(Box::new(tape.clone()));
        let call = |arguments: &str| RequestedCall {
            id: "c1".into(),
            name: "terminal".into(),
            arguments: arguments.into(),
        };
        let (valid, broken) = (call(r#"{"command": "ls"}"#), call("{\"comm"));
        let output = ToolOutput { text: "a\nb\u{9b}".into(), ..ToolOutput::default() };
        let partial = TurnOutcome::Partial { because: "cut".into() };
        let tokens = Tokens { input: 1, output: 2, ..Tokens::default() };
        for event in [
            TurnEvent::Text("two\nlines"),
            TurnEvent::Reasoning("hm"),
            TurnEvent::CallStarted { call: &valid, subagent: None },
            TurnEvent::CallStarted { call: &broken, subagent: Some(2) },
            TurnEvent::CallOutput { call: "c1", text: "a" },
            TurnEvent::CallEnded { call: &valid, output: &output, subagent: None },
            TurnEvent::Retrying { because: "busy", wait: Duration::from_millis(1500) },
            TurnEvent::Continuing { because: "cut" },
            TurnEvent::FailedOver { because: "down", provider: "other" },
            TurnEvent::Compressed { session: "chat:2" },
            TurnEvent::Warning("careful"),
            TurnEvent::TurnEnded { outcome: &TurnOutcome::Complete, tokens, cost: Some(0.5) },
            TurnEvent::TurnEnded { outcome: &partial, tokens, cost: None },
        ] {
            front.show(&event);
        }
        let question = Question { call: &valid, because: "effects", remember: Some("ls") };
        assert_eq!(front.approve(&question), Answer::Later);
        let counts = r#"{"cache_read":0,"cache_write":0,"input":1,"output":2,"reasoning":0}"#;
        let terminal = r#""input":{"command":"ls"}"#;
        let expected = [
            r#"{"event":"text","text":"two\nlines"}"#.to_owned(),
            r#"{"event":"reasoning","text":"hm"}"#.to_owned(),
            format!(r#"{{"call":"c1","event":"call_started",{terminal},"tool":"terminal"}}"#),
            r#"{"call":"c1","event":"call_started","input":"{\"comm","subagent":2,"tool":"terminal"}"#
                .to_owned(),
            r#"{"call":"c1","event":"call_output","text":"a"}"#.to_owned(),
            format!(
                r#"{{"call":"c1","event":"call_ended",{terminal},"is_error":false,"output":"a\nb\u009b","tool":"terminal"}}"#
            ),
            r#"{"because":"busy","event":"retrying","wait_ms":1500}"#.to_owned(),
            r#"{"because":"cut","event":"continuing"}"#.to_owned(),
            r#"{"because":"down","event":"failed_over","provider":"other"}"#.to_owned(),
            r#"{"event":"compressed","session":"chat:2"}"#.to_owned(),
            r#"{"event":"warning","text":"careful"}"#.to_owned(),
            format!(r#"{{"cost":0.5,"event":"turn_ended","outcome":"complete","tokens":{counts}}}"#),
            format!(
                r#"{{"because":"cut","cost":null,"event":"turn_ended","outcome":"partial","tokens":{counts}}}"#
            ),
            format!(
                r#"{{"because":"effects","call":"c1","event":"question",{terminal},"remember":"ls","tool":"terminal"}}"#
            ),
        ];
        let written = String::from_utf8(tape.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines, expected);
    }
}
