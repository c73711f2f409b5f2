//! What became of a call, in the words of the ledger: `ok`, `error` or `error: …`.

use serde_json::Value;

/// More of an error is in the conversation.
const LENGTH: usize = 200;

pub(crate) fn ok() -> String {
    "ok".to_owned()
}

/// It failed; why is in the text's first line.
pub(crate) fn error(why: Option<&str>) -> String {
    let line = why.unwrap_or_default().lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => format!("error: {}", line.chars().take(LENGTH).collect::<String>()),
        None => "error".to_owned(),
    }
}

/// By whether it succeeded.
pub(crate) fn of(succeeded: bool) -> String {
    if succeeded { ok() } else { error(None) }
}

/// By an exit code.
pub(crate) fn of_code(code: i64) -> String {
    if code == 0 { ok() } else { error(Some(&format!("exit code {code}"))) }
}

/// By what a tool answered; nothing if that does not tell.
pub(crate) fn of_response(response: &Value) -> Option<String> {
    match response {
        Value::Object(fields) => {
            let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
            let failure = fields.get("error").filter(|error| !error.is_null());
            if let Some(failure) = failure {
                let message = failure.get("message").unwrap_or(failure).as_str();
                return Some(error(message));
            }
            if flag("interrupted") == Some(true) {
                return Some("interrupted".to_owned());
            }
            if let Some(succeeded) = flag("success") {
                return Some(of(succeeded));
            }
            let code = fields.get("llmContent").and_then(Value::as_str).and_then(exit_code);
            Some(code.map_or_else(ok, of_code))
        }
        Value::String(text) => match serde_json::from_str(text) {
            Ok(response @ Value::Object(_)) => of_response(&response),
            _ => exit_code(text).map(of_code),
        },
        _ => None,
    }
}

/// The exit code that a report of a shell command begins or ends with.
pub(crate) fn exit_code(text: &str) -> Option<i64> {
    const MARKS: [&str; 3] = ["exit code:", "process exited with code", "completed with exit code"];
    let code = |line: &str| {
        let line = line.to_ascii_lowercase();
        MARKS.iter().find_map(|mark| {
            let rest = &line[line.find(mark)? + mark.len()..];
            rest.trim().trim_end_matches([']', '>', '.']).parse().ok()
        })
    };
    const LINES: usize = 8;
    text.lines().take(1).chain(text.lines().rev().take(LINES)).find_map(code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_tell_what_became_of_a_call() {
        let of = |response: Value| of_response(&response);
        for good in [
            json!({ "stdout": "", "interrupted": false }),
            json!("Exit code: 0\nWall time: 0 seconds\nOutput:\nx"),
            json!("done\n\n[Process exited with code 0]"),
            json!("{\"success\": true}"),
            json!({ "llmContent": "Output: (empty)\nExit Code: 0\nSignal: (none)" }),
        ] {
            assert_eq!(of(good.clone()).as_deref(), Some("ok"), "{good}");
        }
        for (bad, why) in [
            (json!("Exit code: 3\nOutput:\nExit code: 0"), "error: exit code 3"),
            (json!({ "llmContent": "Exit Code: 1" }), "error: exit code 1"),
            (json!({ "error": { "message": "no\nway" } }), "error: no"),
            (json!({ "error": 7 }), "error"),
            (json!({ "success": false }), "error"),
            (json!({ "interrupted": true }), "interrupted"),
        ] {
            assert_eq!(of(bad.clone()).as_deref(), Some(why), "{bad}");
        }
        assert_eq!(of(json!("")), None);
        assert_eq!(of(json!([1])), None);
        assert_eq!(exit_code("\n<shellId: 0 completed with exit code 7>"), Some(7));
    }
}
