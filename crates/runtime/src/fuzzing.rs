//! Public access to private parsers, for the targets in `fuzz/`. This module exists only in fuzzing
//! builds.

use serde_json::Value;
use takeback_ledger::SessionRecord;

use crate::model::fuzzing::read_response;
use crate::model::{
    ApiKind, Attempt, AttemptEnd, Delta, Finish, ModelRequest, Provider, build_request, to_message,
};

/// Reads the input as the response of a provider: one byte for the API, one for the size of the
/// pieces, and the rest as the body. Panics if the outcome depends on how the body is split, if the
/// text of the reply differs from the text that was shown, or if the reply cannot be sent back.
pub fn model_response(bytes: &[u8]) {
    let [kind, size, body @ ..] = bytes else { return };
    let kind = [ApiKind::Openai, ApiKind::Responses, ApiKind::Anthropic][usize::from(*kind) % 3];
    let mut shown = String::new();
    let attempt = read_response(kind, [body], &mut |delta| {
        if let Delta::Text(text) = delta {
            shown.push_str(text);
        }
    });
    let pieces = body.chunks(usize::from(*size).max(1));
    assert_eq!(attempt, read_response(kind, pieces, &mut |_| {}));
    assert_eq!(attempt.reply.text, shown);
    if attempt.end == AttemptEnd::Finished(Finish::Stop) && kind == ApiKind::Openai {
        assert_eq!(attempt.reply.cut_calls, 0);
    }
    if let Some(tokens) = attempt.reply.usage {
        assert!(tokens.total() >= 0 && tokens.input >= 0 && tokens.output >= 0, "{tokens:?}");
    }
    check_replay(kind, &attempt);
}

/// Checks that the text of a reply survives being stored and sent back.
fn check_replay(kind: ApiKind, attempt: &Attempt) {
    let provider = Provider {
        name: "p".to_owned(),
        kind,
        base_url: String::new(),
        key: None,
        model: "m".to_owned(),
        context_window: 0,
        max_output: 0,
        prices: None,
    };
    let message = to_message(&attempt.reply, &provider, &attempt.end);
    let body = build_request(
        &provider,
        &ModelRequest {
            session: &SessionRecord::default(),
            messages: std::slice::from_ref(&message),
            tools: &[],
            max_output: 1,
        },
    );
    let text = without_spaces(&attempt.reply.text);
    let sent = without_spaces(&collect_text(&body));
    assert!(sent.contains(&text), "{text} is lost in {body}");
}

/// Collects the text of all messages in a request. The text of a reply may be split into several
/// blocks.
fn collect_text(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(collect_text).collect(),
        Value::Object(fields) => {
            let is_text = |name: &&str| fields.get(*name).is_some_and(Value::is_string);
            let own = ["text", "content"].into_iter().find(is_text);
            let inner = ["messages", "input", "content"].into_iter();
            let inner = inner.filter_map(|name| fields.get(name).filter(|value| value.is_array()));
            let own = own.and_then(|name| fields[name].as_str()).unwrap_or_default();
            own.to_owned() + &inner.map(collect_text).collect::<String>()
        }
        _ => String::new(),
    }
}

/// Removes all spaces and line breaks, because they also separate blocks.
fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}
