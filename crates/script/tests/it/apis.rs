//! Plays the same conversation through each API.

use serde_json::{Value, json};
use takeback_script::{Provider, Reply, Request, Role, Server, Usage};

use crate::client::post_json;

/// Starts a model that first returns text and a tool call, and then comments on the result.
fn start_server() -> Server {
    let script = |request: &Request| match request.last_result() {
        Some(result) => Reply::text(format!("It said {}.", result.text)),
        None => Reply {
            text: "Let me häve a look.".into(),
            usage: Usage { input: 7, output: 3 },
            ..Reply::call("bash", json!({ "command": "ls" }))
        },
    };
    Server::start(script).unwrap()
}

/// Checks the second request, which must look the same in every API.
fn check_second_request(server: &Server, provider: Provider) {
    let request = server.requests().pop().unwrap();
    assert_eq!((request.provider, request.model.as_str()), (provider, "m"));
    assert_eq!(request.system, "Be good.");
    assert!(request.has_tool("bash") && !request.has_tool("write"));
    assert_eq!(request.last_text(), "look around");
    assert_eq!(request.last_result().unwrap().text, "a.txt");
    assert_eq!((request.count_text("a.txt"), request.count_text("nothing")), (1, 0));
    let calls: Vec<_> = request.messages.iter().flat_map(|message| &message.calls).collect();
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].name.as_str(), &calls[0].input), ("bash", &json!({ "command": "ls" })));
    assert_eq!(request.messages[1].role, Role::Assistant);
}

fn join_texts(pieces: impl Iterator<Item = Value>) -> String {
    pieces.filter_map(|piece| piece.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_conversation_works_through_anthropics_messages() {
    let server = start_server();
    let mut body = json!({
        "model": "m", "stream": true, "system": [{ "type": "text", "text": "Be good." }],
        "tools": [{ "name": "bash" }],
        "messages": [{ "role": "user", "content": "look around" }],
    });
    let events = post_json(&server, "/v1/messages?beta=true", &body).events();
    let deltas = || events.iter().map(|event| &event["delta"]);
    assert_eq!(join_texts(deltas().map(|delta| delta["text"].clone())), "Let me häve a look.");
    let input = join_texts(deltas().map(|delta| delta["partial_json"].clone()));
    assert_eq!(input, r#"{"command":"ls"}"#);
    let call = &events.iter().find(|event| event["content_block"]["name"] == "bash").unwrap()["content_block"];
    body["stream"] = false.into();
    let whole = post_json(&server, "/v1/messages", &body).json();
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["usage"]["input_tokens"], 7);
    let result = json!({ "type": "tool_result", "tool_use_id": call["id"], "content": [{ "text": "a.txt" }] });
    let messages = [
        json!({ "role": "assistant", "content": whole["content"] }),
        json!({ "role": "user", "content": [result] }),
    ];
    body["messages"].as_array_mut().unwrap().extend(messages);
    let whole = post_json(&server, "/v1/messages", &body).json();
    assert_eq!(whole["content"], json!([{ "type": "text", "text": "It said a.txt." }]));
    check_second_request(&server, Provider::Anthropic);
}

#[test]
fn a_conversation_works_through_openais_responses() {
    let server = start_server();
    let content = json!([{ "type": "input_text", "text": "look around" }]);
    let mut body = json!({
        "model": "m", "stream": true, "instructions": "Be good.",
        "tools": [{ "type": "function", "name": "bash" }, { "type": "web_search" }],
        "input": [{ "type": "message", "role": "user", "content": content }],
    });
    let events = post_json(&server, "/v1/responses", &body).events();
    assert_eq!(events[0]["type"], "response.created");
    let text = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    assert_eq!(join_texts(text.map(|event| event["delta"].clone())), "Let me häve a look.");
    let whole = events.last().unwrap()["response"].clone();
    assert_eq!(whole["usage"]["total_tokens"], 10);
    let call = whole["output"][1].clone();
    assert_eq!(call["arguments"], r#"{"command":"ls"}"#);
    let result =
        json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "a.txt" });
    body["input"].as_array_mut().unwrap().extend([call, result]);
    let events = post_json(&server, "/v1/responses", &body).events();
    let text = &events.last().unwrap()["response"]["output"][0]["content"][0]["text"];
    assert_eq!(text, "It said a.txt.");
    check_second_request(&server, Provider::Responses);
}

#[test]
fn tools_can_be_offered_in_groups_during_the_conversation() {
    let server = start_server();
    let group = json!({ "type": "namespace", "name": "all", "tools": [{ "name": "bash" }] });
    let offer = json!({ "type": "additional_tools", "tools": [group] });
    let said = json!({ "role": "user", "content": "look around" });
    post_json(&server, "/v1/responses", &json!({ "model": "m", "input": [offer, said] }));
    let request = &server.requests()[0];
    assert_eq!(request.tools, ["bash"]);
    assert_eq!(request.messages.len(), 1);
}

#[test]
fn a_tool_can_take_a_plain_string() {
    let script = |request: &Request| match request.last_result() {
        Some(_) => Reply::text("Done."),
        None => Reply::call("apply_patch", json!("*** Begin Patch")),
    };
    let server = Server::start(script).unwrap();
    let mut body = json!({ "model": "m", "input": "patch it" });
    let whole = post_json(&server, "/v1/responses", &body).json();
    let call = whole["output"][0].clone();
    assert_eq!(
        (&call["type"], &call["input"]),
        (&json!("custom_tool_call"), &json!("*** Begin Patch"))
    );
    let result = json!({ "type": "custom_tool_call_output", "call_id": "1", "output": "ok" });
    body["input"] = json!([call, result]);
    let whole = post_json(&server, "/v1/responses", &body).json();
    assert_eq!(whole["output"][0]["content"][0]["text"], "Done.");
    assert_eq!(server.requests()[1].messages[0].calls[0].input, "*** Begin Patch");
}

#[test]
fn a_conversation_works_through_openais_chat_completions() {
    let server = start_server();
    let mut body = json!({
        "model": "m", "stream": true,
        "tools": [{ "type": "function", "function": { "name": "bash" } }],
        "messages": [
            { "role": "system", "content": "Be good." }, { "role": "user", "content": "look around" }
        ],
    });
    let events = post_json(&server, "/v1/chat/completions", &body).events();
    let deltas = || events.iter().map(|event| &event["choices"][0]["delta"]);
    assert_eq!(join_texts(deltas().map(|delta| delta["content"].clone())), "Let me häve a look.");
    let arguments = deltas().map(|delta| delta["tool_calls"][0]["function"]["arguments"].clone());
    assert_eq!(join_texts(arguments), r#"{"command":"ls"}"#);
    assert_eq!(events.last().unwrap()["usage"]["total_tokens"], 10);
    body["stream"] = false.into();
    let message =
        post_json(&server, "/v1/chat/completions", &body).json()["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "a.txt" });
    body["messages"].as_array_mut().unwrap().extend([message, result]);
    let whole = post_json(&server, "/v1/chat/completions", &body).json();
    assert_eq!(whole["choices"][0]["message"]["content"], "It said a.txt.");
    check_second_request(&server, Provider::Chat);
}

#[test]
fn a_conversation_works_through_gemini() {
    let server = start_server();
    let mut body = json!({
        "systemInstruction": { "parts": [{ "text": "Be good." }] },
        "tools": [{ "functionDeclarations": [{ "name": "bash" }] }],
        "contents": [{ "role": "user", "parts": [{ "text": "look around" }] }],
    });
    let events =
        post_json(&server, "/v1beta/models/m:streamGenerateContent?alt=sse", &body).events();
    let parts = || events.iter().map(|event| &event["candidates"][0]["content"]["parts"][0]);
    assert_eq!(join_texts(parts().map(|part| part["text"].clone())), "Let me häve a look.");
    let last = events.last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 10);
    let call = last["candidates"][0]["content"].clone();
    let response = json!({ "name": "bash", "response": { "output": "a.txt" } });
    let result = json!({ "role": "user", "parts": [{ "functionResponse": response }] });
    body["contents"].as_array_mut().unwrap().extend([call, result]);
    let whole = post_json(&server, "/v1beta/models/m:generateContent", &body).json();
    let text = &whole["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(text, "It said a.txt.");
    check_second_request(&server, Provider::Gemini);
}
