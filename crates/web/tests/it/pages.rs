//! The content of the pages, which can be read without scripts.

use crate::scratch::Scratch;

/// Plays a turn with a rename, an edit and an effect.
fn story() -> Scratch {
    let scratch = Scratch::new();
    scratch
        .write("src/cart.py", "def total(items):\n    return sum(item.price for item in items)\n");
    scratch.write("notes.txt", "remember\n");
    scratch.play_turn("add a discount", "psql -c 'DROP TABLE carts'", || {
        let new = "def total(items):\n    return sum(item.price for item in items) * 0.9\n";
        scratch.write("src/cart.py", new);
        std::fs::remove_file(scratch.project().join("notes.txt")).unwrap();
    });
    scratch
}

fn turn(scratch: &Scratch) -> String {
    let list = scratch.browser().json("/api/v1/checkpoints");
    format!("/w/{}/c/{}", scratch.workspace(), list["entries"][0]["id"].as_str().unwrap())
}

#[test]
fn the_page_of_an_empty_home_explains_how_to_begin() {
    let scratch = Scratch::new();
    let page = scratch.browser().page("/");
    assert!(page.contains("No checkpoints yet"), "{page}");
    assert!(page.contains("takeback install claude"), "{page}");
    assert!(scratch.browser().page("/sessions").contains("No sessions yet"));
    assert!(scratch.browser().page("/health").contains("No problem found"));
    assert!(scratch.browser().page("/search?q=x").contains("No message matches"));
}

#[test]
fn the_timeline_shows_prompts_and_counts_and_effects() {
    let scratch = story();
    for path in ["/".to_owned(), format!("/w/{}", scratch.workspace())] {
        let page = scratch.browser().page(&path);
        for part in ["add a discount", "2 files", "+1", "−2", "⚠ database", "Today", "here now"]
        {
            assert!(page.contains(part), "{path}: {part}");
        }
    }
    let none = scratch.browser().page("/?text=nothing");
    assert!(none.contains("No turn matches this filter"), "{none}");
}

#[test]
fn a_turn_shows_its_files_and_its_diff_and_its_conversation_and_its_effects() {
    let scratch = story();
    let (browser, turn) = (scratch.browser(), turn(&scratch));
    let files = browser.page(&turn);
    assert!(files.contains("cart.py") && files.contains("Restore selected files"), "{files}");
    let diff = browser.page(&format!("{turn}?tab=diff"));
    assert!(diff.contains("<mark> * 0.9</mark>") || diff.contains("<mark>"), "{diff}");
    assert!(diff.contains("class=\"removed\"") && diff.contains("remember"), "{diff}");
    let split = browser.page(&format!("{turn}?tab=diff&split=1&to=now"));
    assert!(split.contains("class=\"diff split\""), "{split}");
    assert!(split.contains("class=\"code removed\"") && split.contains("class=\"code added\""));
    assert!(browser.page(&format!("{turn}?tab=conversation")).contains("add a discount"));
    let effects = browser.page(&format!("{turn}?tab=effects"));
    assert!(effects.contains("DROP TABLE carts"), "{effects}");
    assert!(
        browser.page(&format!("{turn}?tab=coverage")).contains("This checkpoint holds 2 files")
    );
}

#[test]
fn changes_by_others_during_a_turn_are_shown_separately() {
    let scratch = Scratch::new();
    scratch.write("own.txt", "old\n");
    scratch.play_whole_turn("work on it", || {
        scratch.run_call("make one", || scratch.write("own.txt", "new\n"));
        scratch.write("mine.txt", "written by the user between two calls\n");
        scratch.run_call("make two", || scratch.write("more.txt", "more\n"));
    });
    let page = scratch.browser().page(&turn(&scratch));
    let (own, others) = page.split_once("Changed by others meanwhile").expect("a part of its own");
    assert!(own.contains("2 files") && own.contains("by <span class=\"agent\">claude"), "{page}");
    assert!(own.contains("own.txt") && own.contains("more.txt"), "{page}");
    assert!(!own.contains("mine.txt") && others.contains("mine.txt"), "{page}");
    assert!(!others.contains("own.txt") && !others.contains("more.txt"), "{page}");
    let diff = scratch.browser().page(&format!("{}?tab=diff", turn(&scratch)));
    assert!(!diff.contains("mine.txt"), "{diff}");
}

#[test]
fn the_page_of_a_session_links_to_its_turns() {
    let scratch = story();
    let browser = scratch.browser();
    let session = browser.page("/sessions/claude%3As1");
    assert!(session.contains("href=\"/?session=claude%3As1\""), "{session}");
    let turns = browser.page("/?session=claude%3As1");
    assert!(turns.contains("add a discount") && turns.contains("Only session"), "{turns}");
    assert!(browser.page("/?session=claude%3As2").contains("Nothing matches"));
}

#[test]
fn the_health_page_shows_what_doctor_found() {
    let scratch = Scratch::new();
    let browser = scratch.browser();
    let page = browser.page("/health");
    assert!(page.contains("Claude Code") && page.contains("hooks not installed"), "{page}");
    assert!(page.contains("/health?thorough=1"), "{page}");
    let page = browser.page("/health?thorough=1");
    assert!(page.contains("A &lt;b&gt;finding&lt;/b&gt;"), "{page}");
    assert!(page.contains("Run <code>takeback</code>."), "{page}");
    assert!(!page.contains("No problem found"), "{page}");
    let answer = browser.json("/api/v1/doctor?thorough=true");
    assert_eq!(answer["findings"][0]["message"], "a <b>finding</b>");
    assert_eq!(browser.json("/api/v1/doctor")["findings"], serde_json::json!([]));
}

#[test]
fn a_part_of_a_page_is_served_without_the_frame() {
    let scratch = story();
    let turn = turn(&scratch);
    for path in [format!("{turn}?part=detail"), "/?part=rows".into(), format!("{turn}/card")] {
        let part = scratch.browser().page(&path);
        assert!(!part.contains("<html"), "{path}");
        assert!(part.contains("cart.py") || part.contains("add a discount"), "{path}: {part}");
    }
    let whole = format!("{turn}/file?path=%22src/cart.py%22&whole=1");
    assert!(scratch.browser().page(&whole).contains("0.9"));
    assert_eq!(scratch.browser().get(&format!("{turn}/file?path=%22none%22")).status, 404);
}

#[test]
fn the_page_of_a_session_links_to_checkpoints_and_the_search_page_links_to_matches() {
    let scratch = story();
    let browser = scratch.browser();
    let session = browser.page("/sessions/claude%3As1");
    assert!(session.contains(&turn(&scratch)), "{session}");
    let found = browser.page("/search?q=discount");
    assert!(found.contains("<mark>discount</mark>"), "{found}");
    assert!(found.contains("/sessions/claude%3As1?from=1#m1"), "{found}");
    assert_eq!(browser.get("/sessions/claude%3Anone").status, 404);
}

#[test]
fn a_rollback_is_shown_with_a_button_that_takes_it_back() {
    let scratch = story();
    let (browser, turn) = (scratch.browser(), turn(&scratch));
    let id = turn.rsplit('/').next().unwrap();
    let body = serde_json::json!({ "workspace": scratch.workspace(), "checkpoint": id });
    let digest = browser.post("/api/v1/plan", body).json()["digest"].clone();
    let done = browser.post("/api/v1/apply", serde_json::json!({ "digest": digest }));
    assert_eq!(done.status, 200, "{}", done.body);
    let page = browser.page(&format!("/w/{}", scratch.workspace()));
    for part in ["Rolled back to before “add a discount”", "Take that back", "taken back", "◇"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let safety = browser.page(&crate::pages::turn(&scratch));
    assert!(safety.contains("Return to before this rollback"), "{safety}");
}

#[test]
fn many_checkpoints_are_loaded_in_chunks() {
    let scratch = Scratch::new();
    for number in 0..60 {
        let name = format!("p{number:02}");
        // Pinned checkpoints do not count toward the limit of 50 rows.
        let workspace = scratch.workspace();
        let reason = serde_json::json!({ "workspace": workspace, "reason": name, "pinned": true });
        if number == 0 {
            scratch.play_turn("begin", "make", || scratch.write("a", "1"));
        }
        assert_eq!(scratch.browser().post("/api/v1/checkpoints", reason).status, 201);
    }
    let first = scratch.browser().page("/");
    assert_eq!(first.matches("data-open").count(), 50);
    assert!(first.contains("p59") && !first.contains("p05"));
    let more = first.split("data-more").next().unwrap().rsplit("href=\"").next().unwrap();
    let more = more.split('"').next().unwrap().replace("&amp;", "&");
    let rest = scratch.browser().page(&format!("{more}&part=rows"));
    assert!(
        rest.contains("p05") && rest.contains("begin") && rest.contains("61 entries"),
        "{rest}"
    );
}
