//! Exported files, pictures, usage, and the health page.

use serde_json::json;

use crate::scratch::Scratch;

/// A secret that only masking can hide, because no rule makes the files that contain it private.
const SECRET: &str = "ghp_x7Kq2LmW9vRt4YbN8cZ1pD5sHj6fG3aE0uQw";

fn with_secret() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("config.py", "token = 'none'\nport = 1\n");
    let prompt = format!("use the token {SECRET} for the upload");
    let command = format!("curl -X POST -H 'Authorization: Bearer {SECRET}' https://x.example");
    scratch.play_turn(&prompt, &command, || {
        scratch.write("config.py", format!("token = '{SECRET}'\nport = 2\n"));
    });
    scratch
}

#[test]
fn an_exported_file_needs_no_other_files_and_masks_secrets() {
    let scratch = with_secret();
    let browser = scratch.browser();
    let entry = browser.json("/api/v1/checkpoints")["entries"][0].clone();
    let turn = format!("/w/{}/c/{}/export", scratch.workspace(), entry["id"].as_str().unwrap());
    let day = format!("/export?day={}", &entry["time"].as_str().unwrap()[..10]);
    for path in [turn.as_str(), "/sessions/claude%3As1/export", &day] {
        let answer = browser.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.header("content-disposition").starts_with("attachment"), "{path}");
        let page = answer.body;
        let found = page.find("x7Kq2LmW9v").map(|at| &page[at.saturating_sub(300)..at + 40]);
        assert_eq!(found, None, "{path}");
        assert!(page.contains("[redacted:"), "{path}");
        assert!(page.contains("config.py") && page.contains("for the upload"), "{path}");
        // The page loads nothing and runs no script.
        assert!(!page.contains("<script") && !page.contains(" src=\"/"), "{path}");
        assert!(!page.contains("href=\"/") && !page.contains("url("), "{path}");
    }
    assert_eq!(browser.get("/export?day=soon").status, 400);
    assert_eq!(browser.get("/sessions/nothing/export").status, 404);
}

#[test]
fn both_versions_of_a_changed_picture_are_shown() {
    let scratch = Scratch::new();
    let picture = |last: u8| [b"\x89PNG\r\n\x1a\n\0\0".as_slice(), &[last]].concat();
    scratch.write("logo.png", picture(1));
    scratch.write("fake.png", [0, 1, 2, 3]);
    scratch.play_turn("draw", "make", || {
        scratch.write("logo.png", picture(2));
        scratch.write("fake.png", [0, 9]);
        scratch.write("page.html", "<p onclick=x>\n");
    });
    let browser = scratch.browser();
    let entry = &browser.json("/api/v1/checkpoints")["entries"][0];
    let turn = format!("/w/{}/c/{}", scratch.workspace(), entry["id"].as_str().unwrap());
    let page = browser.page(&format!("{turn}?tab=diff"));
    assert!(page.contains("side=old") && page.contains("side=new"), "{page}");
    let image = |name: &str, side: &str| {
        browser.get_bytes(&format!("{turn}/image?path=%22{name}%22&side={side}"))
    };
    let (old, new) = (image("logo.png", "old"), image("logo.png", "new"));
    assert_eq!((old.0, old.1.as_str(), old.2.last()), (200, "image/png", Some(&1)));
    assert_eq!(new.2.last(), Some(&2));
    // Only the content determines whether a file is a picture.
    assert_eq!(image("fake.png", "new").0, 404);
    assert_eq!(image("page.html", "new").0, 404);
}

#[test]
fn code_is_colored_and_changes_to_spaces_can_be_ignored() {
    let scratch = Scratch::new();
    scratch.write("a.py", "def f():\n  return 1\nx = 1\n");
    scratch
        .play_turn("indent", "make", || scratch.write("a.py", "def f():\n    return 1\nx = 2\n"));
    let browser = scratch.browser();
    let entry = &browser.json("/api/v1/checkpoints")["entries"][0];
    let turn = format!("/w/{}/c/{}", scratch.workspace(), entry["id"].as_str().unwrap());
    let page = browser.page(&format!("{turn}?tab=diff&split=0"));
    assert!(page.contains("<span class=\"hl-k\">return</span>"), "{page}");
    assert_eq!(page.matches("<tr class=\"removed\">").count(), 2, "{page}");
    let loose = browser.page(&format!("{turn}?tab=diff&split=0&loose=1"));
    assert_eq!(loose.matches("<tr class=\"removed\">").count(), 1, "{loose}");
}

#[test]
fn usage_and_health_and_lineage_are_shown() {
    let scratch = with_secret();
    let browser = scratch.browser();
    assert!(browser.page("/usage").contains("No usage yet"));
    let health = browser.page("/health");
    assert!(health.contains("Size of the store") && health.contains("form class=\"prune\""));
    let session = browser.page("/sessions/claude%3As1");
    assert!(session.contains("/sessions/claude%3As1/export"), "{session}");
    assert!(!session.contains("Lineage"), "a session without relatives has no graph");
    let taken = browser.post("/api/v1/checkpoints", json!({ "workspace": scratch.workspace() }));
    assert_eq!(taken.status, 201, "{}", taken.body);
}
