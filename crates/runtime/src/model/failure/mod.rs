//! Classifying failed attempts: each kind of failure is handled differently.

mod report;
mod retry_after;
#[cfg(test)]
mod tests;

pub(crate) use self::report::ErrorReport;

use self::retry_after::find_retry_after;
use super::response::Headers;
use super::{AttemptFailure, FailureKind};

/// Phrases that say that the conversation does not fit into the context window.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum context length",
    "maximum prompt length",
    "max_model_len",
    "maximum model length",
    "context length exceeded",
    "context window",
    "context limit",
    "context size",
    "available context",
    "input length exceeds",
    "input tokens exceed",
    "input token count",
    "reduce the length of",
    "exceeded model token limit",
    "prompt exceeds max length",
    "context the overflows",
];

const OVERFLOW_CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size",
    "request_too_large",
    "string_above_max_length",
];

/// The various names of the parameter that limits the output.
const OUTPUT_PARAMETERS: &[&str] =
    &["max_tokens", "max_completion_tokens", "max_output_tokens", "output tokens"];

/// Phrases that say that the sum of the input and the output limit is too large.
const SHARED_LIMITS: &[&str] = &["input length and", "in the messages"];

/// Phrases that say that the output limit itself is wrong. They take precedence over the phrases
/// for an overflow, because such a message often names the context window as the reason.
const OUTPUT_REJECTED: &[&str] = &["too large", "unsupported parameter"];

/// The maximum length of a provider's message, in characters. The rest is cut off.
const MAX_MESSAGE: usize = 600;

/// The minimum length of a key that is masked. A shorter key is a placeholder, and may be a common
/// word.
const MIN_SECRET: usize = 8;

/// Classifies a failed response, or an error inside a response whose status is 200. The message
/// never contains the key.
pub(crate) fn classify_error(
    status: u16,
    headers: &Headers,
    report: &ErrorReport,
    key: Option<&str>,
) -> AttemptFailure {
    let kind = find_kind(status, report);
    let mut message = match report.message.trim() {
        "" => format!("HTTP status {}", report.status.unwrap_or(status)),
        text => shorten_message(&mask_key(text, key)),
    };
    if let Some(target) = headers.get("location").filter(|_| (300..400).contains(&status)) {
        message = format!("the server is at {target} now: change base_url");
    } else {
        message.push_str(match (kind, status) {
            (FailureKind::Unauthorized, _) if key.is_none() => " (set api_key_env)",
            (FailureKind::Unauthorized, _) => " (check the key)",
            (FailureKind::UnknownModel, _) => " (check the name of the model)",
            (FailureKind::Rejected, 404) => " (check base_url)",
            _ => "",
        });
    }
    let retry_after = find_retry_after(headers, &message);
    AttemptFailure { kind, status: Some(status), message, retry_after }
}

/// Replaces the key in a message with `[key]`.
pub(crate) fn mask_key(text: &str, key: Option<&str>) -> String {
    match key.filter(|key| key.len() >= MIN_SECRET) {
        Some(key) => text.replace(key, "[key]"),
        None => text.to_owned(),
    }
}

/// Puts a message on one line and limits its length.
fn shorten_message(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn find_kind(status: u16, report: &ErrorReport) -> FailureKind {
    // If the status of the response means success, only the error itself can name the real status.
    let status = if status < 300 { report.status.unwrap_or(status) } else { status };
    if is_out_of_money(status, report) {
        return FailureKind::Rejected;
    }
    if status == 413 || report.has_phrase(&["request too large"]) {
        // This is an overflow even if the limit is a rate limit: a single request exceeds it, so
        // waiting does not help.
        return FailureKind::Overflow;
    }
    if status == 429 || report.has_code(&["rate_limit", "too_many_requests"]) {
        return FailureKind::RateLimited;
    }
    if is_unauthorized(status, report) {
        return FailureKind::Unauthorized;
    }
    if is_output_rejected(report) {
        return FailureKind::OutputLimit;
    }
    if report.has_code(OVERFLOW_CODES) || report.has_phrase(OVERFLOW) {
        return FailureKind::Overflow;
    }
    // This check comes late, so that it does not match messages that merely mention the parameter.
    if (400..500).contains(&status) && report.has_phrase(OUTPUT_PARAMETERS) {
        return FailureKind::OutputLimit;
    }
    if is_unknown_model(status, report) {
        return FailureKind::UnknownModel;
    }
    let is_busy = report.has_code(&["overloaded"]) || report.has_phrase(&["overloaded"]);
    match status {
        529 => FailureKind::Overloaded,
        200..300 | 500.. if is_busy => FailureKind::Overloaded,
        408 | 409 | 500.. => FailureKind::Server,
        300..500 => FailureKind::Rejected,
        _ if report.has_code(&["invalid", "bad_request", "badrequest"]) => FailureKind::Rejected,
        _ => FailureKind::Server,
    }
}

/// True if the account has no money left. In that case, waiting does not help.
fn is_out_of_money(status: u16, report: &ErrorReport) -> bool {
    status == 402 || report.has_code(&["insufficient_quota", "billing", "insufficient_balance"])
}

fn is_unauthorized(status: u16, report: &ErrorReport) -> bool {
    let is_refused = matches!(status, 401 | 403) && !report.has_code(&["model_not_found"]);
    is_refused
        || report.has_code(&[
            "authentication",
            "permission_error",
            "invalid_api_key",
            "api_key_invalid",
        ])
        || report.has_phrase(&["api key not valid", "invalid api key", "incorrect api key"])
}

fn is_output_rejected(report: &ErrorReport) -> bool {
    report.has_phrase(OUTPUT_PARAMETERS)
        && report.has_phrase(OUTPUT_REJECTED)
        && !report.has_phrase(SHARED_LIMITS)
}

/// True if the provider does not know the model. A 404 that does not mention a model means that the
/// address is wrong.
fn is_unknown_model(status: u16, report: &ErrorReport) -> bool {
    let phrases = &[
        "not a valid model",
        "model not found",
        "unknown model",
        "invalid model",
        "no such model",
    ];
    let is_missing = &["does not exist", "not found", "not exist"];
    report.has_code(&["model_not_found", "unknown_model", "invalid_model"])
        || report.has_phrase(phrases)
        || (status == 404 && report.has_phrase(&["model"]))
        || (matches!(status, 400 | 422)
            && report.has_phrase(&["the model ", "model `", "model '", "model \""])
            && report.has_phrase(is_missing))
}
