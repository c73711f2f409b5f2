//! The outcome of a tool call, as the ledger stores it: `ok`, `error`, `error: …` or `interrupted`.

use serde_json::Value;

/// The maximum length of an error text, in characters. The conversation contains the whole text.
const MAX_ERROR_LENGTH: usize = 200;

/// Returns the outcome of a successful call.
pub(crate) fn success() -> String {
    "ok".to_owned()
}

/// Returns the outcome of a failed call, with the first line of the error text.
pub(crate) fn failure(text: Option<&str>) -> String {
    let line = text.unwrap_or_default().lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => format!("error: {}", shorten(line)),
        None => "error".to_owned(),
    }
}

/// Shortens a long line, at the end of a word if possible: the ledger masks secrets, but would not
/// recognize a secret that is cut in half.
fn shorten(line: &str) -> &str {
    let Some((end, next)) = line.char_indices().nth(MAX_ERROR_LENGTH) else { return line };
    match line[..end].rfind(char::is_whitespace) {
        Some(space) if !next.is_whitespace() => line[..space].trim_end(),
        _ => &line[..end],
    }
}

/// Returns the outcome of a call that reports only success or failure.
pub(crate) fn from_success(succeeded: bool) -> String {
    if succeeded { success() } else { failure(None) }
}

/// Returns the outcome of a command that ended with the given exit code.
pub(crate) fn from_exit_code(code: i64) -> String {
    if code == 0 { success() } else { failure(Some(&format!("exit code {code}"))) }
}

/// Reads the outcome from a tool's response. Returns `None` if the response does not show it.
pub(crate) fn from_response(response: &Value) -> Option<String> {
    match response {
        Value::Object(fields) => {
            let flag = |key: &str| fields.get(key).and_then(Value::as_bool);
            if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
                let message = error.get("message").unwrap_or(error).as_str();
                return Some(failure(message));
            }
            if flag("interrupted") == Some(true) {
                return Some("interrupted".to_owned());
            }
            if let Some(succeeded) = flag("success") {
                return Some(from_success(succeeded));
            }
            let code = fields.get("llmContent").and_then(Value::as_str).and_then(find_exit_code);
            Some(code.map_or_else(success, from_exit_code))
        }
        Value::String(text) => match serde_json::from_str(text) {
            Ok(response @ Value::Object(_)) => from_response(&response),
            _ => find_exit_code(text).map(from_exit_code),
        },
        _ => None,
    }
}

/// Finds the exit code in the text that reports the result of a shell command. Searches only the
/// first line and the last few lines.
pub(crate) fn find_exit_code(text: &str) -> Option<i64> {
    const MARKS: [&str; 3] = ["exit code:", "process exited with code", "completed with exit code"];
    let code = |line: &str| {
        let line = line.to_ascii_lowercase();
        MARKS.iter().find_map(|mark| {
            let rest = &line[line.find(mark)? + mark.len()..];
            rest.trim().trim_end_matches([']', '>', '.']).parse().ok()
        })
    };
    const LAST_LINES: usize = 8;
    text.lines().take(1).chain(text.lines().rev().take(LAST_LINES)).find_map(code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_error_is_cut_between_words() {
        let long = "é".repeat(MAX_ERROR_LENGTH - 4);
        assert_eq!(failure(Some(&format!("{long} secret"))), format!("error: {long}"));
        assert_eq!(failure(Some(&format!("{long} abc d"))), format!("error: {long} abc"));
        assert_eq!(failure(Some(&format!("{long}abcdef"))), format!("error: {long}abcd"));
        assert_eq!(failure(Some("no\nway")), "error: no");
    }

    #[test]
    fn the_outcome_is_read_from_the_response() {
        let of = |response: Value| from_response(&response);
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
        assert_eq!(find_exit_code("\n<shellId: 0 completed with exit code 7>"), Some(7));
    }
}
