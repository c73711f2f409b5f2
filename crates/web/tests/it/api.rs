//! The API: listing, comparing, planning, and applying plans.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use crate::scratch::Scratch;

/// Plays two turns: the first writes a file, the second changes one file and deletes another.
fn two_turns() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("keep.txt", "one\ntwo\nthree\n");
    scratch.write("old.txt", "old\n");
    scratch.play_turn("add the cart", "make cart", || scratch.write("src/cart.py", "total = 1\n"));
    scratch.play_turn("tidy up", "git push origin main", || {
        scratch.write("keep.txt", "one\n2\nthree\n");
        fs::remove_file(scratch.project().join("old.txt")).unwrap();
    });
    scratch
}

fn ids(scratch: &Scratch) -> Vec<String> {
    let list = scratch.browser().json("/api/v1/checkpoints");
    let entries = list["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

fn plan(scratch: &Scratch, body: Value) -> Value {
    let mut body = body;
    body["workspace"] = json!(scratch.workspace());
    let answer = scratch.browser().post("/api/v1/plan", body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

#[test]
fn turns_are_listed_newest_first_with_their_effects() {
    let scratch = two_turns();
    let list = scratch.browser().json("/api/v1/checkpoints");
    let entries = list["entries"].as_array().unwrap();
    let prompts: Vec<&str> =
        entries.iter().map(|entry| entry["prompt"].as_str().unwrap()).collect();
    assert_eq!(prompts, ["tidy up", "add the cart"]);
    assert_eq!(entries[0]["effects"][0]["command"], "git push origin main");
    assert_eq!(entries[0]["workspace"], json!(scratch.workspace()));
    assert_eq!((&entries[0]["files_changed"], &list["total"]), (&json!(2), &json!(2)));
    let workspaces = scratch.browser().json("/api/v1/workspaces");
    assert_eq!(workspaces[0]["id"], json!(scratch.workspace()));
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let scratch = Scratch::new();
    for number in 0..5 {
        scratch.play_turn(&format!("turn {number}"), "make", || {
            scratch.write("a", number.to_string());
        });
    }
    let browser = scratch.browser();
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = browser.json(&format!("/api/v1/checkpoints?limit=2&before={before}"));
        for entry in page["entries"].as_array().unwrap() {
            seen.push(entry["prompt"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => before = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ["turn 4", "turn 3", "turn 2", "turn 1", "turn 0"]);
}

#[test]
fn filters_select_turns() {
    let scratch = two_turns();
    let count = |query: &str| {
        let list = scratch.browser().json(&format!("/api/v1/checkpoints?{query}"));
        list["total"].as_u64().unwrap()
    };
    assert_eq!(count("text=CART"), 1);
    assert_eq!(count("text=push"), 1);
    assert_eq!(count("text=cart+push"), 0);
    assert_eq!((count("agent=claude"), count("agent=codex")), (2, 0));
    assert_eq!((count("session=claude:s1"), count("session=claude:s2")), (2, 0));
    assert_eq!((count("since=2020-01-01"), count("until=2020-01-01")), (2, 0));
    let wrong = scratch.browser().get("/api/v1/checkpoints?since=yesterday");
    assert_eq!(wrong.status, 400);
    assert!(wrong.json()["title"].as_str().unwrap().contains("since"), "{}", wrong.body);
}

#[test]
fn a_diff_shows_the_changes_of_the_turn_or_all_changes_until_now() {
    let scratch = two_turns();
    let ids = ids(&scratch);
    let diff = |id: &str, to: &str| {
        let workspace = scratch.workspace();
        scratch
            .browser()
            .json(&format!("/api/v1/diff?workspace={workspace}&checkpoint={id}&to={to}"))
    };
    let paths = |diff: &Value| -> Vec<String> {
        let changes = diff["changes"].as_array().unwrap().iter();
        changes.map(|change| change["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&diff(&ids[1], "turn")), ["src/cart.py"]);
    assert_eq!(paths(&diff(&ids[1], "now")), ["keep.txt", "old.txt", "src/cart.py"]);
    assert_eq!(paths(&diff(&ids[1], &ids[0])), ["src/cart.py"]);
    let text = diff(&ids[0], "turn");
    assert!(text["diff"].as_str().unwrap().contains("-two\n+2\n"), "{text}");
}

#[test]
fn a_plan_is_applied_and_taken_back() {
    let scratch = two_turns();
    let planned = plan(&scratch, json!({ "checkpoint": ids(&scratch)[0] }));
    assert_eq!(planned["plan"]["restored"], json!(["keep.txt", "old.txt"]));
    assert_eq!(planned["plan"]["effects"][0]["kind"], "publish");
    assert_eq!(scratch.read("keep.txt"), "one\n2\nthree\n");
    let browser = scratch.browser();
    let done = browser.post("/api/v1/apply", json!({ "digest": planned["digest"] }));
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(scratch.read("keep.txt"), "one\ntwo\nthree\n");
    assert!(scratch.has("old.txt"));
    let list = browser.json("/api/v1/checkpoints");
    assert_eq!(list["entries"][0]["entry"], "rollback");
    assert_eq!(list["entries"][1]["taken_back"], true);

    let workspace = json!({ "workspace": scratch.workspace() });
    let back = browser.post("/api/v1/undo", workspace.clone());
    assert_eq!(back.status, 200, "{}", back.body);
    assert_eq!(scratch.read("keep.txt"), "one\n2\nthree\n");
    assert!(!scratch.has("old.txt"));
    assert_eq!(browser.post("/api/v1/redo", workspace.clone()).status, 200);
    assert!(scratch.has("old.txt"));
    assert_eq!(browser.post("/api/v1/redo", workspace).status, 409);
}

#[test]
fn a_plan_that_no_longer_fits_is_not_applied() {
    let scratch = two_turns();
    let planned = plan(&scratch, json!({ "checkpoint": ids(&scratch)[0] }));
    scratch.write("keep.txt", "my own edit\n");
    let browser = scratch.browser();
    let refused = browser.post("/api/v1/apply", json!({ "digest": planned["digest"] }));
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert_eq!(scratch.read("keep.txt"), "my own edit\n");
    let now = refused.json()["now"].clone();
    assert_ne!(now["digest"], planned["digest"]);
    assert_eq!(now["plan"]["others"], json!(["keep.txt"]), "{now}");
    // The user has seen the new plan, and confirms it.
    let done = browser.post("/api/v1/apply", json!({ "digest": now["digest"] }));
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(scratch.read("keep.txt"), "one\ntwo\nthree\n");
    // A plan can be applied only once.
    assert_eq!(browser.post("/api/v1/apply", json!({ "digest": now["digest"] })).status, 404);
}

#[test]
fn single_files_are_restored() {
    let scratch = two_turns();
    let id = ids(&scratch)[0].clone();
    let planned = plan(&scratch, json!({ "checkpoint": id, "paths": ["old.txt"] }));
    assert_eq!(planned["plan"]["restored"], json!(["old.txt"]));
    scratch.browser().post("/api/v1/apply", json!({ "digest": planned["digest"] }));
    assert!(scratch.has("old.txt"));
    assert_eq!(scratch.read("keep.txt"), "one\n2\nthree\n");
    let body = json!({ "workspace": scratch.workspace(), "checkpoint": id, "paths": ["nothing"] });
    assert_eq!(scratch.browser().post("/api/v1/plan", body).status, 400);
}

#[test]
fn an_undo_keeps_what_others_changed_since() {
    let scratch = two_turns();
    let ids = ids(&scratch);
    scratch.write("mine.txt", "mine\n");
    let planned = plan(&scratch, json!({ "checkpoint": ids[1], "undo": true }));
    let done = scratch.browser().post("/api/v1/apply", json!({ "digest": planned["digest"] }));
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(!scratch.has("src/cart.py"));
    assert_eq!(
        (scratch.read("mine.txt"), scratch.read("keep.txt")),
        ("mine\n".into(), "one\n2\nthree\n".into())
    );
}

#[test]
fn conflicts_are_resolved_as_requested() {
    let scratch = two_turns();
    let id = ids(&scratch)[0].clone();
    scratch.write("keep.txt", "one\nzwei\nthree\n");
    let left = plan(&scratch, json!({ "checkpoint": id, "undo": true }));
    assert_eq!(left["plan"]["conflicts"][0]["path"], "keep.txt", "{left}");
    assert_eq!(left["plan"]["conflicts"][0]["resolved"], false);
    let body = json!({ "checkpoint": id, "undo": true, "conflicts": "theirs" });
    let planned = plan(&scratch, body);
    assert_eq!(planned["plan"]["conflicts"][0]["resolved"], true, "{planned}");
    scratch.browser().post("/api/v1/apply", json!({ "digest": planned["digest"] }));
    assert_eq!(scratch.read("keep.txt"), "one\ntwo\nthree\n");
}

#[test]
fn a_user_can_take_a_checkpoint() {
    let scratch = two_turns();
    let new = json!({ "workspace": scratch.workspace(), "name": "good", "reason": "before lunch" });
    let taken = scratch.browser().post("/api/v1/checkpoints", new.clone());
    assert_eq!(taken.status, 201, "{}", taken.body);
    let path = format!("/api/v1/checkpoints/{}/good", scratch.workspace());
    let shown = scratch.browser().json(&path);
    assert_eq!((&shown["kind"], &shown["reason"]), (&json!("manual"), &json!("before lunch")));
    let again = scratch.browser().post("/api/v1/checkpoints", new);
    assert_eq!(again.status, 409, "{}", again.body);
    assert_eq!(again.json()["hint"], "a hint of the commands");
}

#[test]
fn an_existing_checkpoint_can_be_named_and_protected() {
    let scratch = two_turns();
    let browser = scratch.browser();
    let id = ids(&scratch)[0].clone();
    let path = format!("/api/v1/checkpoints/{}/{id}", scratch.workspace());
    let change = |body: Value| {
        browser.header("content-type", "application/json").send("PATCH", &path, &body.to_string())
    };
    let named = change(json!({ "name": "good", "pinned": true }));
    assert_eq!(named.status, 200, "{}", named.body);
    let entry = browser.json("/api/v1/checkpoints")["entries"][0].clone();
    assert_eq!((&entry["name"], &entry["pinned"]), (&json!("good"), &json!(true)));
    assert_eq!(browser.send("DELETE", &path, "").status, 409);
    assert_eq!(change(json!({ "name": "a b" })).status, 409);
    assert_eq!(change(json!({ "nothing": 1 })).status, 422);
    // An omitted name stays as it is; null removes the name.
    assert_eq!(change(json!({ "pinned": false })).json()["name"], "good");
    assert_eq!(change(json!({ "name": null })).json()["name"], Value::Null);
    let deleted = browser.send("DELETE", &path, "");
    assert_eq!((deleted.status, &deleted.json()["id"]), (200, &json!(id)), "{}", deleted.body);
    assert_eq!(browser.send("DELETE", &path, "").status, 404);
    assert_eq!(ids(&scratch).len(), 1);
    let number = format!("/api/v1/checkpoints/{}/1", scratch.workspace());
    assert_eq!(browser.send("DELETE", &number, "").status, 404, "numbers change");
}

#[test]
fn turns_are_found_by_the_files_that_they_changed() {
    let scratch = two_turns();
    let browser = scratch.browser();
    let prompts = |file: &str| -> Vec<String> {
        let list = browser.json(&format!("/api/v1/checkpoints?file={file}"));
        let entries = list["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["prompt"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(prompts("src/cart.py"), ["add the cart"]);
    assert_eq!(prompts("src"), ["add the cart"]);
    assert_eq!(prompts("old.txt").len(), 1);
    assert_ne!(prompts("old.txt"), ["add the cart"]);
    assert!(prompts("nothing.txt").is_empty());
    assert_eq!(browser.get("/api/v1/checkpoints?file=../x").status, 400);
    assert!(browser.page("/?file=src/cart.py").contains("value=\"src/cart.py\""));
}

#[test]
fn a_prune_is_shown_before_it_deletes_anything() {
    let scratch = two_turns();
    let browser = scratch.browser();
    let shown = browser.post("/api/v1/prune", json!({ "max_size_mb": 0 })).json();
    assert_eq!(shown["dry_run"], true, "{shown}");
    assert_eq!(shown["workspaces"][0]["checkpoints"], 1, "{shown}");
    assert_eq!(ids(&scratch).len(), 2, "nothing was deleted");
    let body = json!({ "max_size_mb": 0, "dry_run": false });
    let done = browser.post("/api/v1/prune", body).json();
    assert_eq!(done["workspaces"], shown["workspaces"], "{done}");
    assert_eq!(ids(&scratch).len(), 1);
}

#[test]
fn conflicts_are_resolved_for_each_file() {
    let scratch = two_turns();
    let id = ids(&scratch)[0].clone();
    scratch.write("keep.txt", "one\nzwei\nthree\n");
    let files = json!([{ "path": "keep.txt", "resolution": "theirs" }]);
    let planned = plan(&scratch, json!({ "checkpoint": id, "undo": true, "files": files }));
    assert_eq!(planned["plan"]["conflicts"][0]["resolved"], true, "{planned}");
    scratch.browser().post("/api/v1/apply", json!({ "digest": planned["digest"] }));
    assert_eq!(scratch.read("keep.txt"), "one\ntwo\nthree\n");
}

#[test]
fn sessions_and_messages_and_searches_are_served() {
    let scratch = two_turns();
    let browser = scratch.browser();
    let sessions = browser.json("/api/v1/sessions");
    assert_eq!(sessions[0]["id"], "claude:s1", "{sessions}");
    let messages = browser.json("/api/v1/messages?session=claude:s1");
    assert_eq!(messages["messages"][0]["content"], "add the cart", "{messages}");
    assert_eq!(browser.get("/api/v1/messages?session=claude:s9").status, 404);
    let found = browser.json("/api/v1/search?q=cart");
    assert_eq!(
        (&found["total"], &found["results"][0]["message"]),
        (&json!(1), &json!(1)),
        "{found}"
    );
    assert_eq!(browser.json("/api/v1/stats?by=source")[0]["key"], "claude");
    assert_eq!(browser.json("/api/v1/tasks"), json!([]));
    assert_eq!(browser.json("/api/v1/status")["workspaces"][0]["checkpoints"], 2);
}

#[test]
fn invalid_requests_are_answered_with_problems() {
    let scratch = two_turns();
    let browser = scratch.browser();
    let cases = [
        browser.post("/api/v1/plan", json!({})),
        browser.post("/api/v1/plan", json!({ "workspace": 1, "checkpoint": 2 })),
        browser.post("/api/v1/plan", json!({ "workspace": "x", "checkpoint": "y", "extra": 1 })),
        browser.post("/api/v1/apply", json!([])),
        browser.get("/api/v1/diff"),
        browser.get("/api/v1/checkpoints?before=x"),
        browser.get("/api/v1/nothing"),
        browser.get("/api/v1/stats?by=nothing"),
        browser.header("content-type", "application/json").send("POST", "/api/v1/apply", "{"),
    ];
    for answer in cases {
        assert!((400..500).contains(&answer.status), "{}", answer.body);
        assert_eq!(answer.header("content-type"), "application/problem+json", "{}", answer.body);
        assert!(answer.json()["title"].is_string(), "{}", answer.body);
    }
    // Row numbers change with every new turn, so the API does not accept them.
    let path = format!("/api/v1/checkpoints/{}/1", scratch.workspace());
    assert_eq!(browser.get(&path).status, 404);
}

#[test]
fn the_openapi_document_describes_every_route() {
    let scratch = Scratch::new();
    let document = scratch.browser().json("/api/v1/openapi.json");
    let paths = document["paths"].as_object().unwrap();
    let mut known: Vec<&str> = paths.keys().map(String::as_str).collect();
    known.sort_unstable();
    let routes = include_str!("../../src/api/mod.rs").split(".route(").skip(1);
    let mut served: Vec<String> =
        routes.map(|route| format!("/api/v1{}", route.split('"').nth(1).unwrap())).collect();
    served.retain(|path| path != "/api/v1/openapi.json");
    served.sort_unstable();
    assert_eq!(known, served);
    let plan = &document["paths"]["/api/v1/plan"]["post"];
    assert_eq!(plan["requestBody"]["required"], true);
    let problem = &plan["responses"]["default"]["content"]["application/problem+json"];
    assert!(problem["schema"].is_object(), "{plan}");
}

#[test]
fn a_server_that_is_stopped_finishes_a_restore() {
    const FILES: usize = 150;
    let mut scratch = Scratch::new();
    let name = |number: usize| format!("data/{number}.txt");
    (0..FILES).for_each(|number| scratch.write(&name(number), format!("{number}\n")));
    scratch.play_turn("clean up", "rm -r data", || {
        fs::remove_dir_all(scratch.project().join("data")).unwrap();
    });
    let id = ids(&scratch)[0].clone();
    let digest = plan(&scratch, json!({ "checkpoint": id }))["digest"].clone();
    let browser = scratch.browser();
    let asked = thread::spawn(move || browser.post("/api/v1/apply", json!({ "digest": digest })));
    while !scratch.has("data/0.txt") && !asked.is_finished() {
        thread::yield_now();
    }
    scratch.stop();
    // The client may or may not receive its answer.
    let _ = asked.join();
    let missing = (0..FILES).filter(|number| !scratch.has(name(*number))).count();
    assert_eq!(missing, 0);
    // The rollback is part of the history, so it can be taken back.
    scratch.restart();
    let body = json!({ "workspace": scratch.workspace() });
    assert_eq!(scratch.browser().post("/api/v1/undo", body).status, 200);
    assert!(!scratch.has("data/0.txt"));
}
