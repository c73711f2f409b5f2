//! Turns as JSON lines, for programs.

use serde_json::{Value, json};
use takeback_runtime::{Answer, FrontEnd, Question, TurnEvent};

use crate::output;

/// Prints every event as one line of JSON. Calls that need approval wait.
pub(crate) struct JsonFrontEnd;

impl FrontEnd for JsonFrontEnd {
    fn show(&self, event: &TurnEvent<'_>) {
        println!("{}", output::disarm_json(&event_json(event).to_string()));
        output::flush();
    }

    fn approve(&self, question: &Question<'_>) -> Answer {
        let event = json!({
            "event": "approval", "call": question.call.id, "name": question.call.name,
            "input": question.call.arguments, "because": question.because,
            "remember": question.remember,
        });
        println!("{}", output::disarm_json(&event.to_string()));
        output::flush();
        Answer::Later
    }
}

fn event_json(event: &TurnEvent<'_>) -> Value {
    match event {
        TurnEvent::Text(text) => json!({ "event": "text", "text": text }),
        TurnEvent::Reasoning(text) => json!({ "event": "reasoning", "text": text }),
        TurnEvent::CallStarted { call, subagent } => json!({
            "event": "call_started", "call": call.id, "name": call.name, "input": call.arguments,
            "subagent": subagent,
        }),
        TurnEvent::CallOutput { call, text } => {
            json!({ "event": "call_output", "call": call, "text": text })
        }
        TurnEvent::CallEnded { call, output, subagent } => json!({
            "event": "call_ended", "call": call.id, "name": call.name, "text": output.text,
            "is_error": output.is_error, "subagent": subagent,
        }),
        TurnEvent::Retrying { because, wait } => json!({
            "event": "retrying", "because": because, "seconds": wait.as_secs_f64(),
        }),
        TurnEvent::Continuing { because } => json!({ "event": "continuing", "because": because }),
        TurnEvent::FailedOver { because, provider } => {
            json!({ "event": "failed_over", "because": because, "provider": provider })
        }
        TurnEvent::Compressed { session } => json!({ "event": "compressed", "session": session }),
        TurnEvent::Warning(text) => json!({ "event": "warning", "text": text }),
        TurnEvent::TurnEnded { outcome, tokens, cost } => {
            let mut event = serde_json::to_value(outcome).expect("plain data becomes JSON");
            event["event"] = "turn_ended".into();
            event["tokens"] = serde_json::to_value(tokens).expect("plain data becomes JSON");
            event["cost"] = json!(cost);
            event
        }
    }
}
