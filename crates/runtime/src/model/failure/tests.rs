//! A table of failures as providers report them.

#![allow(clippy::needless_pass_by_value, reason = "the values are written in place")]

use serde_json::{Value, json};

use super::super::FailureKind::{self, *};
use super::super::response::Headers;
use super::{ErrorReport, classify_error};

fn openai(kind: &str, code: Value, message: &str) -> String {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
        .to_string()
}

fn anthropic(kind: &str, message: &str) -> String {
    json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string()
}

fn check(status: u16, body: &str, expected: FailureKind) {
    let report = ErrorReport::from_body(body.as_bytes());
    let failure = classify_error(status, &Headers::default(), &report, None);
    assert_eq!(failure.kind, expected, "{status} {body}");
    assert_eq!(failure.status, Some(status));
}

#[test]
fn a_conversation_that_does_not_fit_is_an_overflow() {
    let invalid = "invalid_request_error";
    let bodies = [
        openai(invalid, "context_length_exceeded".into(), "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."),
        openai(invalid, Value::Null, "Your input exceeds the context window of this model."),
        openai("BadRequestError", 400.into(), "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion). Please reduce the length of the messages or completion."),
        openai("invalid_request_error", Value::Null, "The decoder prompt (length 9000) is longer than the maximum model length of 8192 (max_model_len)."),
        anthropic(invalid, "prompt is too long: 210000 tokens > 200000 maximum"),
        anthropic(invalid, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"),
        json!({ "error": { "code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_ctx": 4096 } }).to_string(),
        json!({ "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens." }).to_string(),
        json!([{ "error": { "code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT" } }]).to_string(),
        json!({ "message": "Input is too long for requested model." }).to_string(),
        "Invalid request: Your request exceeded model token limit: 262144".to_owned(),
    ];
    for body in &bodies {
        // Local servers report the overflow as an internal error.
        [400, 422, 500, 503].into_iter().for_each(|status| check(status, body, Overflow));
    }
    check(413, "Request Entity Too Large", Overflow);
    check(413, &anthropic("request_too_large", "Request exceeds the maximum size"), Overflow);
    let alone =
        "Request too large for gpt-4 on tokens per min (TPM): Limit 10000, Requested 12000.";
    check(429, &openai("tokens", "rate_limit_exceeded".into(), alone), Overflow);
}

#[test]
fn a_rejected_output_limit_is_not_an_overflow() {
    let messages = [
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
        "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 4096 tokens and your request has 27 input tokens (100000 > 4096 - 27).",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got 200000 instead.",
        "`max_tokens` must be less than or equal to `8192`",
        "Range of max_tokens should be [1, 8192]",
    ];
    for message in messages {
        check(400, &openai("invalid_request_error", Value::Null, message), OutputLimit);
        check(400, &anthropic("invalid_request_error", message), OutputLimit);
    }
}

#[test]
fn errors_about_keys_and_errors_about_models_are_told_apart() {
    check(401, &anthropic("authentication_error", "invalid x-api-key"), Unauthorized);
    check(401, "", Unauthorized);
    check(
        403,
        &anthropic("permission_error", "Your API key does not have permission"),
        Unauthorized,
    );
    check(403, "<html><title>Forbidden</title></html>", Unauthorized);
    check(400, &json!([{ "error": { "code": 400, "message": "API key not valid. Please pass a valid API key." } }]).to_string(), Unauthorized);

    check(404, &anthropic("not_found_error", "model: claude-9"), UnknownModel);
    check(
        404,
        &openai(
            "invalid_request_error",
            "model_not_found".into(),
            "The model `gpt-9` does not exist or you do not have access to it.",
        ),
        UnknownModel,
    );
    check(
        403,
        &openai(
            "invalid_request_error",
            "model_not_found".into(),
            "Project does not have access to model `gpt-9`",
        ),
        UnknownModel,
    );
    check(
        404,
        &json!({ "error": "model \"llama9\" not found, try pulling it first" }).to_string(),
        UnknownModel,
    );
    check(400, &openai("", 400.into(), "gpt-99 is not a valid model ID"), UnknownModel);
    check(
        400,
        &openai("BadRequestError", Value::Null, "The model `x` does not exist."),
        UnknownModel,
    );

    check(404, &anthropic("not_found_error", "Not Found"), Rejected);
    check(404, &json!({ "detail": "Not Found" }).to_string(), Rejected);
    check(404, "404 page not found", Rejected);
}

#[test]
fn rate_limits_and_server_errors_are_told_apart() {
    check(
        429,
        &anthropic("rate_limit_error", "This request would exceed your rate limit"),
        RateLimited,
    );
    check(429, "", RateLimited);
    check(
        429,
        &openai(
            "insufficient_quota",
            "insufficient_quota".into(),
            "You exceeded your current quota",
        ),
        Rejected,
    );
    check(
        402,
        &json!({ "error": { "message": "Insufficient Balance", "code": 402 } }).to_string(),
        Rejected,
    );
    check(529, &anthropic("overloaded_error", "Overloaded"), Overloaded);
    check(529, "", Overloaded);
    check(
        503,
        &openai(
            "server_error",
            Value::Null,
            "The engine is currently overloaded, please try again later",
        ),
        Overloaded,
    );
    for status in [408, 409, 500, 502, 503, 504, 520] {
        check(status, "upstream connect error", Server);
    }
    check(
        400,
        &anthropic(
            "invalid_request_error",
            "This model does not support assistant message prefill.",
        ),
        Rejected,
    );
    check(
        422,
        &json!({ "detail": [{ "loc": ["body", "tools"], "msg": "field required" }] }).to_string(),
        Rejected,
    );
    check(301, "", Rejected);
    check(418, "", Rejected);
}

#[test]
fn an_error_in_a_response_with_status_200_is_classified_by_its_content() {
    check(200, &anthropic("overloaded_error", "Overloaded"), Overloaded);
    check(200, &anthropic("api_error", "Internal server error"), Server);
    check(200, &anthropic("rate_limit_error", "slow down"), RateLimited);
    check(200, &anthropic("invalid_request_error", "bad"), Rejected);
    check(200, &anthropic("authentication_error", "bad"), Unauthorized);
    check(
        200,
        &json!({ "error": { "code": 502, "message": "Provider returned error" } }).to_string(),
        Server,
    );
    check(200, &json!({ "error": { "code": 429, "message": "busy" } }).to_string(), RateLimited);
    check(200, &json!({ "object": "error", "message": "the prompt is too long", "type": "BadRequestError", "code": 400 }).to_string(), Overflow);
    check(200, "{}", Server);
}

#[test]
fn the_message_is_found_in_every_form_of_body() {
    let cases = [
        (json!({ "error": { "message": "a" } }).to_string(), "a"),
        (json!({ "error": { "error": { "message": "a" } } }).to_string(), "a"),
        (json!({ "error": "a" }).to_string(), "a"),
        (json!({ "error": null, "message": "a" }).to_string(), "a"),
        (json!({ "errors": [{ "message": "a" }] }).to_string(), "a"),
        (json!({ "detail": [{ "msg": "a" }, { "msg": "b" }] }).to_string(), "a; b"),
        (json!({ "detail": { "error": 1, "message": "a" } }).to_string(), "a"),
        (json!({ "response": { "error": { "message": "a" } } }).to_string(), "a"),
        (json!({ "error": { "message": "a", "metadata": { "raw": "b", "provider_name": "c" } } }).to_string(), "a: b"),
        ("two\n  lines".to_owned(), "two lines"),
        ("<html><head><title>502 Bad Gateway</title></head></html>".to_owned(), "502 Bad Gateway"),
        ("<html></html>".to_owned(), "a web page"),
        (json!({ "unknown": 1 }).to_string(), "{\"unknown\":1}"),
        (String::new(), "HTTP status 500"),
        (json!({ "error": {} }).to_string(), "HTTP status 500"),
    ];
    for (body, expected) in cases {
        let report = ErrorReport::from_body(body.as_bytes());
        let failure = classify_error(500, &Headers::default(), &report, None);
        assert_eq!(failure.message, expected, "{body}");
    }
    let long = classify_error(
        500,
        &Headers::default(),
        &ErrorReport::from_body("é".repeat(9_000).as_bytes()),
        None,
    );
    assert_eq!(long.message.chars().count(), 601);
}

#[test]
fn a_long_key_is_masked_and_a_placeholder_is_not() {
    let mask = |key: &str| {
        let report = ErrorReport::from_message(&format!("wrong key {key} for local"));
        classify_error(401, &Headers::default(), &report, Some(key)).message
    };
    assert_eq!(mask("sk-0123456789"), "wrong key [key] for local (check the key)");
    assert_eq!(mask("local"), "wrong key local for local (check the key)");
    assert_eq!(mask(""), "wrong key for local (check the key)");
}
