//! JSON-RPC 2.0: what a line asks for, and the line that answers it.

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
/// Our own: it did not work, and `data` says why and what to do.
const FAILED: i64 = -32000;
/// Our own: the plan is not what was shown.
const CHANGED: i64 = -32001;
/// Our own: something is in the way of a rollback.
const BLOCKED: i64 = -32002;

/// What a method gives.
pub(super) type Answer = Result<Box<RawValue>, Error>;

/// What a method gives, as it is sent.
pub(super) fn answer(result: &impl Serialize) -> Answer {
    Ok(to_raw_value(result).expect("plain data becomes JSON"))
}

/// Why there is no result.
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
            data: Some(serde_json::json!({ "hint": "`initialize` lists them" })),
            ..Error::new(METHOD_NOT_FOUND, format!("there is no method {method:?}"))
        }
    }

    pub(super) fn internal() -> Error {
        Error::new(INTERNAL_ERROR, "something went wrong inside: please report this")
    }

    /// `now`: what would be done by now.
    pub(super) fn changed(now: &impl Serialize) -> Error {
        let hint = "nothing was changed; look at the new plan and repeat with its digest";
        Error {
            data: Some(serde_json::json!({ "hint": hint, "now": now })),
            ..Error::new(CHANGED, "this is not what the plan says any more")
        }
    }

    /// `plan`: what would have been done; it says what is in the way.
    pub(super) fn blocked(plan: &impl Serialize) -> Error {
        let hint = "move what is in the way and repeat";
        Error {
            data: Some(serde_json::json!({ "hint": hint, "plan": plan })),
            ..Error::new(BLOCKED, "nothing was changed: something is in the way")
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let Failure { message, causes, hint } = failure;
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

/// What is sent back.
#[derive(Serialize)]
struct Response {
    jsonrpc: &'static str,
    /// As it came; null if none can be told.
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

/// Answers one line; `None` if it wants no answer. Requests of a batch are served one by one.
pub(super) fn answer_line(
    line: &[u8],
    mut serve: impl FnMut(&Request) -> Answer,
) -> Option<String> {
    let values = match read(line) {
        Ok(values) => values,
        Err(error) => return Some(text(&Response::new(None, Err(error)))),
    };
    match values {
        Values::One(value) => respond(&value, &mut serve).as_ref().map(text),
        Values::Batch(values) => {
            let answers = values.iter().filter_map(|value| respond(value, &mut serve));
            let answers: Vec<Response> = answers.collect();
            (!answers.is_empty()).then(|| text(&answers))
        }
    }
}

/// Answers a line that is too long to be read.
pub(super) fn answer_too_long(limit: usize) -> String {
    let message = format!("a line has at most {limit} bytes");
    text(&Response::new(None, Err(Error::new(INVALID_REQUEST, message))))
}

fn text(response: &impl Serialize) -> String {
    serde_json::to_string(response).expect("plain data becomes JSON")
}

enum Values {
    One(Box<RawValue>),
    Batch(Vec<Box<RawValue>>),
}

/// What a line has, each value as it stands there: how deep it goes does not matter.
fn read(line: &[u8]) -> Result<Values, Error> {
    let unreadable = |error: serde_json::Error| Error::new(PARSE_ERROR, error.to_string());
    let line = std::str::from_utf8(line)
        .map_err(|error| Error::new(PARSE_ERROR, format!("not UTF-8: {error}")))?;
    if !line.trim_start().starts_with('[') {
        return serde_json::from_str(line).map(Values::One).map_err(unreadable);
    }
    match serde_json::from_str::<Vec<Box<RawValue>>>(line).map_err(unreadable)? {
        values if values.is_empty() => Err(Error::new(INVALID_REQUEST, "a batch without requests")),
        values => Ok(Values::Batch(values)),
    }
}

/// `None`: a notification, or something that belongs to one.
fn respond(value: &RawValue, serve: &mut impl FnMut(&Request) -> Answer) -> Option<Response> {
    match Request::read(value) {
        Ok(request) => {
            let answer = serve(&request);
            request.id.map(|id| Response::new(Some(id), answer))
        }
        Err((id, message)) => Some(Response::new(id, Err(Error::new(INVALID_REQUEST, message)))),
    }
}

impl Request {
    /// On an error: the id, if one can be told, and what is wrong.
    fn read(value: &RawValue) -> Result<Request, (Option<Box<RawValue>>, &'static str)> {
        let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(value.get())
        else {
            return Err((None, "a request is an object"));
        };
        let id = fields.remove("id");
        if !id.as_deref().is_none_or(is_id) {
            return Err((None, "`id` is a text, a number or null"));
        }
        let word =
            |name: &str| -> Option<String> { serde_json::from_str(fields.get(name)?.get()).ok() };
        if word("jsonrpc").as_deref() != Some("2.0") {
            return Err((id, "`jsonrpc` is not \"2.0\""));
        }
        let Some(method) = word("method") else {
            return Err((id, "`method` is missing, or no text"));
        };
        let params = fields.remove("params").filter(|params| params.get() != "null");
        if params.as_ref().is_some_and(|params| !params.get().starts_with(['{', '['])) {
            return Err((id, "`params` is no object"));
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
    fn check(line: &str, expected: &str) {
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
    fn ids_come_back_as_they_are() {
        for id in
            ["1", "-1.50e400", r#""a\ud800""#, "null", "123456789012345678901234567890", r#""""#]
        {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":{{}}}}"#);
            check(&line, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
        for id in ["{}", "[1]", "true"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#);
            check(&line, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#);
        }
    }

    #[test]
    fn what_is_no_request_says_so() {
        let error = |id: &str, code: i64| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":""#)
        };
        check("{", &error("null", -32700));
        check("{} {}", &error("null", -32700));
        check("[1", &error("null", -32700));
        check("[]", &error("null", -32600));
        check("7", &error("null", -32600));
        check(r#"{"id":3}"#, &error("3", -32600));
        check(r#"{"jsonrpc":"1.0","id":3,"method":"echo"}"#, &error("3", -32600));
        check(r#"{"jsonrpc":"2.0","id":3,"method":7}"#, &error("3", -32600));
        check(r#"{"jsonrpc":"2.0","id":3,"method":"echo","params":7}"#, &error("3", -32600));
        check(r#"{"jsonrpc":"2.0","id":3,"method":"no"}"#, &error("3", -32601));
    }

    #[test]
    fn notifications_have_no_answer_and_batches_have_one_each() {
        check(r#"{"jsonrpc":"2.0","method":"echo"}"#, "");
        check(r#"{"jsonrpc":"2.0","method":"no"}"#, "");
        check(r#"[{"jsonrpc":"2.0","method":"no"},{"jsonrpc":"2.0","method":"echo"}]"#, "");
        check(
            r#" [{"jsonrpc":"2.0","id":2,"method":"echo","params":[]},{"jsonrpc":"2.0","method":"echo"},1]"#,
            r#"[{"jsonrpc":"2.0","id":2,"result":[]},{"jsonrpc":"2.0","id":null,"error":{"code":-32600"#,
        );
    }

    #[test]
    fn depth_is_no_matter() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        check(
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"a":{deep}}}}}"#),
            r#"{"jsonrpc":"2.0","id":1,"result":{"a":[["#,
        );
    }
}
