//! Access to the server, and protection against hostile content.

use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::scratch::{Scratch, TOKEN};

#[test]
fn the_printed_link_gives_a_cookie_and_hides_the_token() {
    let scratch = Scratch::new();
    let path = format!("/?token={TOKEN}");
    assert!(scratch.link().ends_with(&path), "{}", scratch.link());
    let answer = scratch.stranger().get(&path);
    assert_eq!((answer.status, answer.header("location")), (303, "/"));
    let cookie = answer.header("set-cookie");
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "{cookie}");
    let value = cookie.split(';').next().unwrap();
    assert_eq!(scratch.stranger().header("cookie", value).get("/").status, 200);
}

#[test]
fn nothing_is_served_without_the_token() {
    let scratch = Scratch::new();
    let stranger = scratch.stranger();
    let other_port = format!("takeback_{}=test-cookie", scratch.port() - 1);
    let clients = [
        stranger.clone(),
        stranger.header("cookie", "takeback_1=test-cookie"),
        stranger.header("cookie", &other_port),
        stranger.header("cookie", &format!("takeback_{}=test-cooki", scratch.port())),
        stranger.header("authorization", "Bearer wrong"),
        stranger.header("authorization", TOKEN),
    ];
    for client in clients {
        for path in ["/", "/?token=wrong", "/?token=", "/assets/app.js", "/sessions", "/nothing"] {
            let answer = client.get(path);
            assert_eq!(answer.status, 401, "{path}: {}", answer.body);
            assert_eq!(answer.header("set-cookie"), "", "{path}");
        }
        for path in ["/api/v1/checkpoints", "/api/v1/events", "/api/v1/openapi.json"] {
            let answer = client.get(path);
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.header("content-type"), "application/problem+json");
        }
        let answer = client.post("/api/v1/undo", json!({ "workspace": "x" }));
        assert_eq!(answer.status, 401);
    }
    let program = stranger.header("authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(program.get("/api/v1/checkpoints").status, 200);
}

#[test]
fn other_hosts_are_refused() {
    let scratch = Scratch::new();
    let (browser, port) = (scratch.browser(), scratch.port());
    for host in [
        "evil.example".into(),
        format!("evil.example:{port}"),
        format!("127.0.0.1:{}", port - 1),
        "127.0.0.1".into(),
    ] {
        for path in ["/", "/api/v1/events", "/assets/app.js", &format!("/?token={TOKEN}")] {
            let answer = browser.header("host", &host).get(path);
            assert_eq!(answer.status, 421, "{host} {path}");
            assert_eq!(answer.header("set-cookie"), "", "{host} {path}");
        }
    }
    assert_eq!(browser.header("host", &format!("localhost:{port}")).get("/").status, 200);
    // HTTP/1.1 requires the header, so the HTTP library may answer instead of the guard.
    assert!(matches!(browser.without("host").get("/").status, 400 | 421));
}

#[test]
fn other_origins_are_refused() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "make", || scratch.write("a", "1"));
    let (browser, port) = (scratch.browser(), scratch.port());
    let body = json!({ "workspace": scratch.workspace() });
    let own = format!("http://127.0.0.1:{port}");
    for origin in [
        "http://evil.example",
        "null",
        "https://127.0.0.1",
        &format!("http://localhost:{port}"),
        &format!("http://127.0.0.1:{}", port - 1),
        &format!("{own}.evil.example"),
    ] {
        let foreign = browser.header("origin", origin);
        assert_eq!(foreign.post("/api/v1/undo", body.clone()).status, 403, "{origin}");
        assert_eq!(foreign.get("/api/v1/checkpoints").status, 403, "{origin}");
        assert_eq!(foreign.get("/api/v1/events").status, 403, "{origin}");
    }
    // Status 409: there is nothing to undo, but the guard allows the request.
    assert_eq!(browser.header("origin", &own).post("/api/v1/undo", body.clone()).status, 409);
    for site in ["cross-site", "same-site"] {
        let foreign = browser.header("sec-fetch-site", site);
        assert_eq!(foreign.post("/api/v1/undo", body.clone()).status, 403, "{site}");
        assert_eq!(foreign.get("/").status, 403, "{site}");
        assert_eq!(foreign.get("/api/v1/events").status, 403, "{site}");
    }
    assert_eq!(browser.header("sec-fetch-site", "none").get("/").status, 200);
    assert_eq!(
        browser.header("sec-fetch-site", "none").post("/api/v1/undo", body.clone()).status,
        403
    );
    assert_eq!(browser.header("sec-fetch-site", "same-origin").get("/").status, 200);
}

#[test]
fn a_form_on_another_page_cannot_change_anything() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "make", || scratch.write("a", "1"));
    let body = json!({ "workspace": scratch.workspace() }).to_string();
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""] {
        let answer =
            scratch.browser().header("content-type", kind).send("POST", "/api/v1/undo", &body);
        assert_eq!(answer.status, 415, "{kind}");
    }
    assert_eq!(scratch.browser().send("POST", "/api/v1/undo", &body).status, 415);
    assert_eq!(scratch.browser().get("/api/v1/undo").status, 405);
}

#[test]
fn every_answer_has_the_protective_headers() {
    let scratch = Scratch::new();
    let clients = [scratch.browser(), scratch.stranger()];
    for path in
        ["/", "/nothing", "/assets/app.js", "/api/v1/checkpoints", "/api/v1/nothing", "/w/x"]
    {
        for client in &clients {
            let answer = client.get(path);
            let policy = answer.header("content-security-policy");
            assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
            assert!(!policy.contains("unsafe") && !policy.contains('*'), "{path}: {policy}");
            assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
            assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
            assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin", "{path}");
            let caching = answer.header("cache-control");
            assert!(matches!(caching, "no-store" | "no-cache"), "{path}: {caching}");
            assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
        }
    }
}

#[test]
fn pages_contain_no_inline_scripts_or_styles() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "make", || scratch.write("a", "1"));
    let page = scratch.browser().page(&format!("/w/{}", scratch.workspace()));
    for inline in [" style=", " onclick=", "<style", "javascript:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    for address in page.split("src=\"").skip(1).chain(page.split("href=\"").skip(1)) {
        let address = address.split('"').next().unwrap();
        assert!(address.starts_with('/') || address.starts_with('#'), "{address}");
    }
}

#[test]
fn requests_that_are_too_large_are_refused() {
    let scratch = Scratch::new();
    let browser = scratch.browser();
    let long = "x".repeat(2 << 20);
    let answer = browser.post("/api/v1/plan", json!({ "workspace": "x", "checkpoint": long }));
    assert_eq!(answer.status, 413, "{}", answer.body);
    let address = format!("/search?q={}", "x".repeat(20 << 10));
    assert_eq!(browser.get(&address).status, 414);
    for limit in ["0", "501", "99999999999999999999", "-1"] {
        let answer = browser.get(&format!("/api/v1/checkpoints?limit={limit}"));
        assert_eq!(answer.status, 400, "{limit}: {}", answer.body);
    }
    let paths: Vec<String> = (0..10_001).map(|number| number.to_string()).collect();
    let answer = browser
        .post("/api/v1/plan", json!({ "workspace": "x", "checkpoint": "x", "paths": paths }));
    assert_eq!(answer.status, 400);
}

#[test]
fn the_server_knows_only_workspaces_with_checkpoints() {
    let scratch = Scratch::new();
    scratch.play_turn("write", "make", || scratch.write("a", "1"));
    let browser = scratch.browser();
    let unknown = scratch.opened().store().unwrap().workspace_id("/etc".as_ref()).to_string();
    for id in [unknown.as_str(), "..", "%2e%2e", "0000000000000000", "%2Fetc", "x"] {
        assert_eq!(browser.get(&format!("/w/{id}")).status, 404, "{id}");
        let answer = browser.get(&format!("/api/v1/checkpoints?workspace={id}"));
        assert_eq!(answer.status, 404, "{id}");
        let body = json!({ "workspace": id, "checkpoint": "abcdef" });
        assert_eq!(browser.post("/api/v1/plan", body).status, 404, "{id}");
        assert_eq!(
            browser.post("/api/v1/checkpoints", json!({ "workspace": id })).status,
            404,
            "{id}"
        );
    }
    let id = browser.json("/api/v1/checkpoints")["entries"][0]["id"].as_str().unwrap().to_owned();
    for path in ["../secret", "/etc/passwd", "a/../../b"] {
        let body = json!({ "workspace": scratch.workspace(), "checkpoint": id, "paths": [path] });
        let answer = browser.post("/api/v1/plan", body);
        assert!(matches!(answer.status, 400 | 422), "{path}: {}", answer.body);
    }
}

/// Names that contain markup, reverse the text around them, break lines, or are as long as
/// possible.
fn hostile_names() -> Vec<String> {
    vec![
        "<img src=x onerror=alert(1)>".to_owned(),
        "\"><script>alert(1)<".to_owned(),
        "a\u{202e}gpj.exe".to_owned(),
        "line\nbreak".to_owned(),
        "x".repeat(255),
        "{{7*7}}${x}`'".to_owned(),
    ]
}

#[test]
fn hostile_names_and_prompts_stay_text() {
    let scratch = Scratch::new();
    let prompt = "<img src=x onerror=alert(2)> \u{202e}reversed\n</h1><script>alert(3)</script>";
    scratch.play_turn(prompt, "psql -c '<script>alert(4)</script>'", || {
        for name in hostile_names() {
            scratch.write(&name, "<b onclick=alert(5)>\u{202e}\n");
        }
        let bytes = std::ffi::OsStr::from_bytes(b"not-\xff-utf8");
        std::fs::write(scratch.project().join(bytes), "x").unwrap();
    });
    let browser = scratch.browser();
    let workspace = scratch.workspace();
    let entry = &browser.json("/api/v1/checkpoints")["entries"][0];
    let turn = format!("/w/{workspace}/c/{}", entry["id"].as_str().unwrap());
    let tabs = ["files", "diff", "diff&split=1", "conversation", "effects", "coverage"];
    let mut paths: Vec<String> = tabs.iter().map(|tab| format!("{turn}?tab={tab}")).collect();
    paths.extend([
        "/".into(),
        format!("/w/{workspace}"),
        format!("{turn}/card"),
        "/sessions".into(),
    ]);
    paths.extend(["/search?q=reversed".into(), "/sessions/claude%3As1".into()]);
    paths.push("/search?q=%3Cscript%3Ealert(6)%3C/script%3E".into());
    paths.push("/?text=%22%3E%3Cscript%3Ealert(7)%3C/script%3E".into());
    for path in paths {
        let page = browser.page(&path);
        for hostile in ["<img", "<script>", "<b onclick", "\u{202e}", "</h1><script"] {
            assert!(!page.contains(hostile), "{path} contains {hostile}");
        }
    }
    // The API returns names unchanged, as JSON, so that a client can send them back in requests.
    let name = "<img src=x onerror=alert(1)>";
    let body = json!({ "workspace": workspace, "checkpoint": entry["id"], "paths": [name] });
    let plan = browser.post("/api/v1/plan", body).json();
    assert_eq!(plan["plan"]["deleted"], json!([name]), "{plan}");
}

#[test]
fn private_files_are_never_shown() {
    let scratch = Scratch::new();
    scratch.write(".gitignore", ".env\n");
    scratch.write(".env", "SECRET=hunter2\n");
    scratch.play_turn("change the secret", "make", || scratch.write(".env", "SECRET=hunter3\n"));
    let browser = scratch.browser();
    let workspace = scratch.workspace();
    let id = browser.json("/api/v1/checkpoints")["entries"][0]["id"].as_str().unwrap().to_owned();
    let file = format!("/w/{workspace}/c/{id}/file?path=%22.env%22");
    let diff = format!("/w/{workspace}/c/{id}?tab=diff");
    let api = format!("/api/v1/diff?workspace={workspace}&checkpoint={id}");
    for path in [file, diff, api] {
        let page = browser.page(&path);
        assert!(page.contains(".env") || page.contains("private file"), "{path}: {page}");
        assert!(!page.contains("hunter"), "{path}");
    }
}
