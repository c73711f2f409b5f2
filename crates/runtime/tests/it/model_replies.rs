//! Whole replies, and conversations made of them.

use takeback_ledger::Tokens;
use takeback_runtime::Cancel;
use takeback_runtime::model::{ApiKind, AttemptEnd, Finish, estimate_tokens, to_message};
use takeback_script::{Fault, Finish as ScriptFinish, Reply, Request, Role, Server, Usage};

use crate::model_support::{
    APIS, Conversation, KEY, ask, ask_scripted, ask_with, client, expected_reply, provider,
    text_and_call, with_fault,
};

#[test]
fn a_reply_arrives_whole_through_each_api() {
    for kind in APIS {
        let outcome = ask_scripted(kind, text_and_call());
        assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop), "{kind:?}");
        assert_eq!(outcome.attempt.reply, expected_reply(), "{kind:?}");
        assert_eq!(outcome.shown, "Häve a look.");
        assert_eq!(outcome.shown_calls, ["bash"]);
    }
}

#[test]
fn a_reply_that_is_not_a_stream_is_understood() {
    for kind in APIS {
        let outcome = ask_scripted(kind, with_fault(Fault::NoStream, text_and_call()));
        assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop), "{kind:?}");
        assert_eq!(outcome.attempt.reply, expected_reply(), "{kind:?}");
        assert_eq!(outcome.shown, "Häve a look.");
    }
}

#[test]
fn a_reply_without_token_counts_reports_no_usage() {
    for kind in APIS {
        let outcome = ask_scripted(kind, Reply { hides_usage: true, ..text_and_call() });
        assert_eq!(outcome.attempt.end, AttemptEnd::Finished(Finish::Stop), "{kind:?}");
        assert_eq!(outcome.attempt.reply.usage, None, "{kind:?}");
        assert_eq!(outcome.attempt.reply.calls.len(), 1);
    }
}

#[test]
fn a_text_that_reaches_the_output_limit_is_reported() {
    for kind in APIS {
        let reply = Reply { finish: ScriptFinish::Length, ..Reply::text("half of") };
        let attempt = ask_scripted(kind, reply).attempt;
        assert_eq!(attempt.end, AttemptEnd::Finished(Finish::Length), "{kind:?}");
        assert_eq!((attempt.reply.text.as_str(), attempt.reply.cut_calls), ("half of", 0));
    }
}

#[test]
fn a_call_that_reaches_the_output_limit_is_cut_off() {
    for kind in APIS {
        for fault in [None, Some(Fault::NoStream)] {
            let mut reply = Reply { finish: ScriptFinish::Length, fault, ..text_and_call() };
            reply.calls.insert(0, reply.calls[0].clone());
            let attempt = ask_scripted(kind, reply).attempt;
            assert_eq!(attempt.end, AttemptEnd::Finished(Finish::Length), "{kind:?}");
            assert_eq!(attempt.reply.calls, expected_reply().calls, "{kind:?}");
            assert_eq!(attempt.reply.cut_calls, 1, "{kind:?}");
        }
    }
}

#[test]
fn a_refusal_is_reported() {
    for kind in APIS {
        let reply = Reply { finish: ScriptFinish::Refusal, ..Reply::text("I") };
        let attempt = ask_scripted(kind, reply).attempt;
        assert_eq!(attempt.end, AttemptEnd::Finished(Finish::Refused), "{kind:?}");
    }
}

#[test]
fn the_key_goes_into_the_header_of_the_api() {
    for kind in APIS {
        let server = Server::start(|_| Reply::text("hi")).unwrap();
        let mut provider = provider(kind, &server);
        ask(&client(), &provider);
        provider.key = None;
        ask(&client(), &provider);
        let log = server.log();
        let bearer = format!("Bearer {KEY}");
        let expected = match kind {
            ApiKind::Anthropic => ("x-api-key", KEY),
            _ => ("authorization", bearer.as_str()),
        };
        assert_eq!(log[0].header(expected.0), Some(expected.1));
        assert_eq!(log[1].header(expected.0), None);
        assert!(log[0].header("user-agent").unwrap().starts_with("takeback/"));
        assert!(!log[0].request.as_ref().unwrap().body.to_string().contains(KEY));
    }
}

/// Starts a model that thinks, calls a tool, and then comments on the result.
fn start_thinker() -> Server {
    let script = |request: &Request| match request.last_result() {
        Some(result) => Reply::text(format!("It said {}.", result.text)),
        None => Reply {
            reasoning: "I should look.".into(),
            usage: Usage { input: 7, output: 3 },
            ..text_and_call()
        },
    };
    Server::start(script).unwrap()
}

#[test]
fn a_stored_reply_is_sent_back_unchanged() {
    for kind in APIS {
        let server = start_thinker();
        let (client, provider) = (client(), provider(kind, &server));
        let mut conversation = Conversation::new();
        let first = ask(&client, &provider).attempt;
        assert_eq!(first.reply.reasoning.as_deref(), Some("I should look."));
        let message = to_message(&first.reply, &provider, &first.end);
        assert_eq!(message.finish_reason.as_deref(), Some("tool_calls"));
        // Convert the message to JSON and back, as if the ledger had stored and returned it.
        let message = serde_json::from_value(serde_json::to_value(message).unwrap()).unwrap();
        conversation.messages.push(message);
        conversation.messages.push(takeback_ledger::MessageRecord {
            role: "tool".to_owned(),
            tool_call_id: Some(first.reply.calls[0].id.clone()),
            content: Some("a.txt".into()),
            ..takeback_ledger::MessageRecord::default()
        });
        let second = ask_with(&client, &provider, &conversation, &Cancel::default());
        assert_eq!(second.attempt.reply.text, "It said a.txt.", "{kind:?}");

        let request = server.requests().pop().unwrap();
        assert_eq!((request.system.as_str(), request.stream), ("Be brief.", true));
        assert!(request.has_tool("bash"));
        let said: Vec<_> =
            request.messages.iter().filter(|message| message.role == Role::Assistant).collect();
        assert_eq!(said.iter().map(|said| said.text.as_str()).collect::<String>(), "Häve a look.");
        let calls: Vec<_> = said.iter().flat_map(|said| &said.calls).collect();
        assert_eq!(calls.len(), 1);
        assert_eq!((&calls[0].id, &calls[0].name), (&first.reply.calls[0].id, &"bash".to_owned()));
        let sent = request.body.to_string();
        let reasoning = match kind {
            ApiKind::Openai => r#""reasoning_content":"I should look.""#,
            ApiKind::Responses => r#""encrypted_content":"encrypted_000001""#,
            ApiKind::Anthropic => r#""signature":"signature_000001""#,
        };
        assert!(sent.contains(reasoning), "{sent}");
    }
}

#[test]
fn reasoning_is_not_sent_to_another_model() {
    for (kind, other) in
        [(APIS[0], APIS[1]), (APIS[1], APIS[1]), (APIS[2], APIS[2]), (APIS[0], APIS[0])]
    {
        let server = start_thinker();
        let client = client();
        let first_provider = provider(kind, &server);
        let first = ask(&client, &first_provider).attempt;
        let mut conversation = Conversation::new();
        conversation.messages.push(to_message(&first.reply, &first_provider, &first.end));
        let mut provider = provider(other, &server);
        provider.model = "another".to_owned();
        ask_with(&client, &provider, &conversation, &Cancel::default());
        let sent = server.requests().pop().unwrap().body.to_string();
        for word in ["I should look.", "encrypted_0", "signature", "reasoning_content"] {
            assert!(!sent.contains(word), "{kind:?} to {other:?}: {word} in {sent}");
        }
        assert!(sent.contains("Häve a look."));
    }
}

#[test]
fn an_interrupted_reply_is_sent_back_as_text() {
    for kind in APIS {
        let fault =
            Fault::ErrorEvent { after: 4, kind: "server_error".into(), message: "x".into() };
        let reply = with_fault(fault, Reply::text("half an answer"));
        let server = Server::start(move |_| reply.clone()).unwrap();
        let (client, provider) = (client(), provider(kind, &server));
        let first = ask(&client, &provider).attempt;
        assert!(matches!(first.end, AttemptEnd::Failed(_)));
        let message = to_message(&first.reply, &provider, &first.end);
        assert_eq!(message.finish_reason.as_deref(), Some("interrupted"));
        assert!(!first.reply.text.is_empty());
        let mut conversation = Conversation::new();
        conversation.messages.push(message);
        conversation.messages.push(crate::model_support::user_message("go on"));
        ask_with(&client, &provider, &conversation, &Cancel::default());
        let request = server.requests().pop().unwrap();
        assert_eq!(request.messages[1].text, first.reply.text);
        assert_eq!(request.last_text(), "go on");
    }
}

#[test]
fn the_tokens_of_a_request_are_estimated_from_its_text() {
    let mut conversation = Conversation::new();
    let before = estimate_tokens(&conversation.request());
    let text = "Rust is a programming language. ".repeat(1_000);
    conversation.messages.push(crate::model_support::user_message(&text));
    let more = estimate_tokens(&conversation.request()) - before;
    // The actual number of tokens is about 6,000.
    assert!((6_000..12_000).contains(&more), "{more}");
    let prices = takeback_runtime::model::Prices {
        input: 2.0,
        output: 10.0,
        cache_read: 0.5,
        cache_write: 3.0,
    };
    let tokens = Tokens {
        input: 1_000_000,
        output: 100_000,
        cache_read: 2_000_000,
        cache_write: 1_000_000,
        reasoning: 100_000,
    };
    assert!((prices.cost(tokens) - 8.0).abs() < 1e-9);
}
