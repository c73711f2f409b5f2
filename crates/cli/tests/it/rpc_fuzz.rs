//! `takeback rpc` with random input: each request with an id gets exactly one answer.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::rpc_client::Client;
use crate::session::Session;

/// Valid requests from which random lines are made.
const LINES: [&str; 13] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"turn.start","params":{"agent":"f","session":"1","prompt":"go\nön"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tool.before","params":{"agent":"f","session":1,"call":"c","tool":"bash","input":{"command":"rm -rf x; echo '$(ls)'"}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tool.after","params":{"agent":"f","session":1,"call":"c","tool":"bash","input":[[{"x":1e9}]],"outcome":null}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"checkpoint.list","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"checkpoint.diff","params":{"checkpoint":1,"paths":["a"],"full":true}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"rollback.apply","params":{"checkpoint":"1.1","scope":"files"}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"rollback.undo","params":{"dry_run":true}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"sessions.search","params":{"query":"go OR \"ön\"","limit":3}}"#,
    r#"{"jsonrpc":"2.0","method":"messages.append","params":{"session":"1","messages":[{"role":"assistant","content":[{"type":"text"}]}]}}"#,
    r#"[{"jsonrpc":"2.0","id":8,"method":"status"},{"jsonrpc":"2.0","method":"status"},7,{"jsonrpc":"2.0","id":9,"method":"no"}]"#,
    r#"{"jsonrpc":"2.0","id":11,"method":"slash","params":{"line":"/search go --limit 2","session":"f:1"}}"#,
    r#"{"jsonrpc":"2.0","id":10,"method":"explain","params":{"command":"cat <<E | sh\n$(x"}}"#,
];

/// Pieces that are inserted into the requests.
const PIECES: [&str; 16] = [
    "null",
    "{}",
    "[]",
    "-1",
    "1e999",
    "\"\"",
    "true",
    "\\ud800",
    "\\u0000",
    ",",
    "\"id\":5,",
    "}",
    "]",
    "\u{1f600}",
    "9007199254740993",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

struct Dice(u64);

impl Dice {
    fn random_below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// Generates a line that resembles a request.
    fn random_line(&mut self) -> Vec<u8> {
        let mut line = LINES[self.random_below(LINES.len())].as_bytes().to_vec();
        for _ in 0..self.random_below(4) {
            let at = self.random_below(line.len());
            let end = (at + self.random_below(12)).min(line.len());
            match self.random_below(6) {
                0 => line[at] = self.random_below(256) as u8,
                1 => drop(line.drain(at..end)),
                2 => drop(line.splice(at..end, *b" ")),
                3 => drop(line.splice(at..at, PIECES[self.random_below(PIECES.len())].bytes())),
                4 => drop(line.splice(at..end, PIECES[self.random_below(PIECES.len())].bytes())),
                _ => line.truncate(at),
            }
            if line.is_empty() {
                break;
            }
        }
        line.retain(|byte| *byte != b'\n');
        line
    }
}

/// Returns the ids of the answers that a line must get, or `None` if this parser cannot tell.
fn expected_ids(line: &[u8]) -> Option<Vec<Value>> {
    if line.trim_ascii().is_empty() {
        return Some(Vec::new());
    }
    let nobody = Some(vec![Value::Null]);
    let Ok(text) = std::str::from_utf8(line) else { return nobody };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(requests)) if requests.is_empty() => nobody,
        Ok(Value::Array(requests)) => Some(requests.iter().filter_map(answered_id).collect()),
        Ok(request) => Some(answered_id(&request).into_iter().collect()),
        Err(_) if serde_json::from_str::<&RawValue>(text).is_ok() => None,
        Err(_) => nobody,
    }
}

fn answered_id(request: &Value) -> Option<Value> {
    let id = match request.get("id") {
        Some(id @ (Value::Null | Value::Number(_) | Value::String(_))) => Some(id.clone()),
        Some(_) => return Some(Value::Null),
        None => None,
    };
    let is_request = request["jsonrpc"] == "2.0"
        && request["method"].is_string()
        && request
            .get("params")
            .is_none_or(|params| params.is_object() || params.is_array() || params.is_null());
    if is_request { id } else { Some(id.unwrap_or_default()) }
}

#[test]
fn every_request_with_an_id_gets_one_answer() {
    let cases = std::env::var("TAKEBACK_RPC_CASES").map_or(300, |cases| cases.parse().unwrap());
    let session = Session::new();
    session.write("a", "1");
    let mut client = Client::new(&session);
    let mut dice = Dice(7);
    for case in 0..cases {
        let line = dice.random_line();
        let seen = String::from_utf8_lossy(&line).into_owned();
        client.send(&line);
        client.send(b"\n");
        let end = json!(format!("end of {case}"));
        client.send_line(&json!({ "jsonrpc": "2.0", "id": end, "method": "explain" }).to_string());
        let mut answers = Vec::new();
        loop {
            let answer = client.receive().unwrap_or_else(|| panic!("it ended: {seen}"));
            if answer["id"] == end {
                break;
            }
            match answer {
                Value::Array(batch) => answers.extend(batch),
                answer => answers.push(answer),
            }
        }
        for answer in &answers {
            assert_ne!(answer["error"]["code"], -32603, "{seen}: {answer}");
            assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
        }
        let ids: Vec<Value> = answers.iter().map(|answer| answer["id"].clone()).collect();
        if let Some(expected) = expected_ids(&line) {
            assert_eq!(ids, expected, "{seen}");
        }
    }
    assert_eq!(client.end().code(), Some(0));
}
