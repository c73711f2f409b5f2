//! JSON-RPC messages in both directions, because the agent also answers questions from the server.

use serde_json::{Value, json};

pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;

/// A message from the agent.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a question from the server; `None` if the agent could not ask.
    Response {
        id: Value,
        result: Option<Value>,
    },
}

/// An error to report to the agent.
#[derive(Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) id: Value,
    pub(super) code: i64,
    pub(super) message: String,
}

/// Parses a line.
pub(super) fn parse(line: &[u8]) -> Result<Message, RpcError> {
    let fail = |id: &Value, code, message: &str| {
        Err(RpcError { id: id.clone(), code, message: message.to_owned() })
    };
    let mut value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return fail(&Value::Null, PARSE_ERROR, &error.to_string()),
    };
    let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    if value["jsonrpc"] != "2.0" {
        let id = id.unwrap_or_default();
        return fail(&id, INVALID_REQUEST, "a message must be an object with `jsonrpc` \"2.0\"");
    }
    let params = value.get_mut("params").map(Value::take).unwrap_or_default();
    match (value["method"].as_str(), id) {
        (Some(method), Some(id)) => Ok(Message::Request { id, method: method.to_owned(), params }),
        (Some(method), None) => Ok(Message::Notification { method: method.to_owned(), params }),
        (None, Some(id)) if value.get("result").is_some() || value.get("error").is_some() => {
            Ok(Message::Response { id, result: value.get_mut("result").map(Value::take) })
        }
        (None, id) => fail(&id.unwrap_or_default(), INVALID_REQUEST, "`method` must be a string"),
    }
}

/// Builds the answer to a request that failed.
pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_notifications_and_responses_are_told_apart() {
        let request = parse(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap();
        let method = "ping".to_owned();
        assert_eq!(
            request,
            Message::Request { id: json!(1), method: method.clone(), params: Value::Null }
        );
        let notification = parse(br#"{"jsonrpc":"2.0","method":"ping","params":{"a":1}}"#).unwrap();
        assert_eq!(notification, Message::Notification { method, params: json!({ "a": 1 }) });
        let response = parse(br#"{"jsonrpc":"2.0","id":"x","result":{}}"#).unwrap();
        assert_eq!(response, Message::Response { id: json!("x"), result: Some(json!({})) });
        let refusal = parse(br#"{"jsonrpc":"2.0","id":"x","error":{"code":1}}"#).unwrap();
        assert_eq!(refusal, Message::Response { id: json!("x"), result: None });
    }

    #[test]
    fn a_malformed_message_gets_an_error_with_its_id() {
        let error = |line: &str| {
            let error = parse(line.as_bytes()).unwrap_err();
            (error.id, error.code)
        };
        assert_eq!(error("{"), (Value::Null, PARSE_ERROR));
        assert_eq!(error("[]"), (Value::Null, INVALID_REQUEST));
        assert_eq!(error("7"), (Value::Null, INVALID_REQUEST));
        assert_eq!(
            error(r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#),
            (json!(3), INVALID_REQUEST)
        );
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":3}"#), (json!(3), INVALID_REQUEST));
    }
}
