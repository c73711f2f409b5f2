//! JSON-RPC 2.0: parses a line into requests, and formats the line that answers it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::Failure;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// Takeback's own error code: the operation failed. `data` holds the causes and a hint.
const FAILED: i64 = -32000;
/// Takeback's own error code: the plan differs from the one that was shown.
const CHANGED: i64 = -32001;
/// Takeback's own error code: some paths block a rollback.
const BLOCKED: i64 = -32002;

/// The result of a method, as JSON, or its error.
pub(super) type Answer = Result<Box<RawValue>, Error>;

/// Builds a method's answer from its result.
pub(super) fn answer(result: &impl Serialize) -> Answer {
    Ok(to_raw_value(result).expect("plain data becomes JSON"))
}

/// The error that a request caused.
#[derive(Debug, Serialize)]
pub(super) struct Error {
    code: i64,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl Error {
    fn new(code: i64, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), data: None }
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Error {
        Error::new(INVALID_PARAMS, message)
    }

    pub(super) fn no_such_method(method: &str) -> Error {
        Error {
            data: Some(serde_json::json!({ "hint": "`initialize` lists the methods" })),
            ..Error::new(METHOD_NOT_FOUND, format!("unknown method {method:?}"))
        }
    }

    pub(super) fn internal() -> Error {
        Error::new(INTERNAL_ERROR, "takeback crashed: please report this as a bug")
    }

    /// Builds the error for an outdated digest. `now` is the new plan.
    pub(super) fn changed(now: &impl Serialize) -> Error {
        let hint = "nothing was changed; check the new plan and repeat with its digest";
        Error {
            data: Some(serde_json::json!({ "hint": hint, "now": now })),
            ..Error::new(CHANGED, "the plan is out of date")
        }
    }

    /// Builds the error for a blocked plan. The plan lists the blocked paths.
    pub(super) fn blocked(plan: &impl Serialize) -> Error {
        let hint =
            "move the blocking files out of the way, or set skip_blocked to restore the rest";
        Error {
            data: Some(serde_json::json!({ "hint": hint, "plan": plan })),
            ..Error::new(BLOCKED, "nothing was changed: something is in the way")
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let Failure { message, causes, hint, .. } = failure;
        let data = Some(serde_json::json!({ "causes": causes, "hint": hint }));
        Error { code: FAILED, message, data }
    }
}

/// A request, or a notification if it has no id.
pub(super) struct Request {
    id: Option<Box<RawValue>>,
    pub(super) method: String,
    pub(super) params: Option<Box<RawValue>>,
}

/// The answer to a request, in the form in which it is sent.
#[derive(Serialize)]
struct Response {
    jsonrpc: &'static str,
    /// The id of the request; null if the request has no valid id.
    id: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

impl Response {
    fn new(id: Option<Box<RawValue>>, answer: Answer) -> Response {
        let (result, error) = match answer {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        Response { jsonrpc: "2.0", id, result, error }
    }
}

/// Answers a line. The requests in a batch are served one by one. Returns `None` if the line
/// contains only notifications.
pub(super) fn answer_line(
    line: &[u8],
    mut serve: impl FnMut(&Request) -> Answer,
) -> Option<String> {
    let values = match parse_line(line) {
        Ok(values) => values,
        Err(error) => return Some(to_line(&Response::new(None, Err(error)))),
    };
    match values {
        Values::One(value) => respond(&value, &mut serve).as_ref().map(to_line),
        Values::Batch(values) => {
            let answers = values.iter().filter_map(|value| respond(value, &mut serve));
            let answers: Vec<Response> = answers.collect();
            (!answers.is_empty()).then(|| to_line(&answers))
        }
    }
}

/// Answers a line that is too long to be read.
pub(super) fn answer_too_long(limit: usize) -> String {
    let message = format!("the line is longer than {limit} bytes");
    to_line(&Response::new(None, Err(Error::new(INVALID_REQUEST, message))))
}

fn to_line(response: &impl Serialize) -> String {
    serde_json::to_string(response).expect("plain data becomes JSON")
}

enum Values {
    One(Box<RawValue>),
    Batch(Vec<Box<RawValue>>),
}

/// Splits a line into values without parsing them, so that their depth does not matter.
fn parse_line(line: &[u8]) -> Result<Values, Error> {
    let unreadable = |error: serde_json::Error| Error::new(PARSE_ERROR, error.to_string());
    let line = std::str::from_utf8(line)
        .map_err(|error| Error::new(PARSE_ERROR, format!("not UTF-8: {error}")))?;
    if !line.trim_start().starts_with('[') {
        return serde_json::from_str(line).map(Values::One).map_err(unreadable);
    }
    match serde_json::from_str::<Vec<Box<RawValue>>>(line).map_err(unreadable)? {
        values if values.is_empty() => Err(Error::new(INVALID_REQUEST, "an empty batch")),
        values => Ok(Values::Batch(values)),
    }
}

/// Serves one of the values in a line. Returns `None` for a notification.
fn respond(value: &RawValue, serve: &mut impl FnMut(&Request) -> Answer) -> Option<Response> {
    match Request::parse(value) {
        Ok(request) => {
            let answer = serve(&request);
            request.id.map(|id| Response::new(Some(id), answer))
        }
        Err((id, message)) => Some(Response::new(id, Err(Error::new(INVALID_REQUEST, message)))),
    }
}

impl Request {
    /// Parses a request. An error includes the id if the request has a valid one.
    fn parse(value: &RawValue) -> Result<Request, (Option<Box<RawValue>>, &'static str)> {
        let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(value.get())
        else {
            return Err((None, "a request must be an object"));
        };
        let id = fields.remove("id");
        if !id.as_deref().is_none_or(is_id) {
            return Err((None, "`id` must be a string, a number or null"));
        }
        let word =
            |name: &str| -> Option<String> { serde_json::from_str(fields.get(name)?.get()).ok() };
        if word("jsonrpc").as_deref() != Some("2.0") {
            return Err((id, "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = word("method") else {
            return Err((id, "`method` must be a string"));
        };
        let params = fields.remove("params").filter(|params| params.get() != "null");
        if params.as_ref().is_some_and(|params| !params.get().starts_with(['{', '['])) {
            return Err((id, "`params` must be an object"));
        }
        Ok(Request { id, method, params })
    }
}

fn is_id(id: &RawValue) -> bool {
    let start = |c: char| c == '"' || c == '-' || c.is_ascii_digit();
    id.get().starts_with(start) || id.get() == "null"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_answer(line: &str, expected: &str) {
        let serve = |request: &Request| match request.method.as_str() {
            "echo" => answer(&request.params),
            method => Err(Error::no_such_method(method)),
        };
        let answered = answer_line(line.as_bytes(), serve).unwrap_or_default();
        assert!(
            answered.starts_with(expected) && answered.is_empty() == expected.is_empty(),
            "{line}: {answered}"
        );
    }

    #[test]
    fn ids_come_back_unchanged() {
        for id in
            ["1", "-1.50e400", r#""a\ud800""#, "null", "123456789012345678901234567890", r#""""#]
        {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":{{}}}}"#);
            assert_answer(&line, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
        for id in ["{}", "[1]", "true"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#);
            assert_answer(&line, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#);
        }
    }

    #[test]
    fn a_malformed_request_gets_an_error() {
        let error = |id: &str, code: i64| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":""#)
        };
        assert_answer("{", &error("null", -32700));
        assert_answer("{} {}", &error("null", -32700));
        assert_answer("[1", &error("null", -32700));
        assert_answer("[]", &error("null", -32600));
        assert_answer("7", &error("null", -32600));
        assert_answer(r#"{"id":3}"#, &error("3", -32600));
        assert_answer(r#"{"jsonrpc":"1.0","id":3,"method":"echo"}"#, &error("3", -32600));
        assert_answer(r#"{"jsonrpc":"2.0","id":3,"method":7}"#, &error("3", -32600));
        assert_answer(
            r#"{"jsonrpc":"2.0","id":3,"method":"echo","params":7}"#,
            &error("3", -32600),
        );
        assert_answer(r#"{"jsonrpc":"2.0","id":3,"method":"no"}"#, &error("3", -32601));
    }

    #[test]
    fn a_notification_gets_no_answer_and_a_batch_gets_one() {
        assert_answer(r#"{"jsonrpc":"2.0","method":"echo"}"#, "");
        assert_answer(r#"{"jsonrpc":"2.0","method":"no"}"#, "");
        assert_answer(r#"[{"jsonrpc":"2.0","method":"no"},{"jsonrpc":"2.0","method":"echo"}]"#, "");
        assert_answer(
            r#" [{"jsonrpc":"2.0","id":2,"method":"echo","params":[]},{"jsonrpc":"2.0","method":"echo"},1]"#,
            r#"[{"jsonrpc":"2.0","id":2,"result":[]},{"jsonrpc":"2.0","id":null,"error":{"code":-32600"#,
        );
    }

    #[test]
    fn deep_values_are_passed_through() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_answer(
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"a":{deep}}}}}"#),
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":[["#,
        );
    }
}
