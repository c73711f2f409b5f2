//! Pages show all text, and no text becomes part of the page's structure.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{html, markdown};
use crate::{MessageRecord, Transcript};

fn transcript() -> Transcript {
    serde_json::from_value(json!({
        "id": "claude:1", "source": "claude", "title": "Fix <the> build", "model": "sonnet",
        "workspace": "/home/me/a_b", "started_at": 1_700_000_000, "input_tokens": 1200,
        "estimated_cost_usd": 0.25, "system_prompt": "Be brief.",
        "messages": [
            { "seq": 1, "role": "user", "content": "## user\n```\nrun it", "timestamp": 1_700_000_001 },
            { "seq": 2, "role": "assistant", "content": "I run it.", "reasoning": "Why not",
              "reasoning_content": "Why not", "tool_calls": [
                { "id": "c1", "function": { "name": "run", "arguments": "{\"command\":\"make\"}" } } ] },
            { "seq": 3, "role": "tool", "tool_call_id": "c1", "tool_name": "run", "content": "ok" },
            { "seq": 4, "role": "user", "content": "no", "undone": true },
        ],
        "effects": [{ "turn": 1, "kind": "publish", "command": "git push", "time": 1_700_000_002 }],
    }))
    .unwrap()
}

#[test]
fn markdown_has_facts_and_messages_and_effects() {
    let expected = r#"# Fix \<the\> build

- Session: claude:1
- Source: claude
- Model: sonnet
- Workspace: /home/me/a\_b
- Started: 2023-11-14T22:13:20Z
- Input tokens: 1200
- Cost: 0.2500 USD (estimated)

<details><summary>System prompt</summary>

```text
Be brief.
```

</details>

## 1. user, 2023-11-14T22:13:21Z

````markdown
## user
```
run it
````

## 2. assistant

<details><summary>Reasoning</summary>

```text
Why not
```

</details>

```markdown
I run it.
```

Calls **run**

```json
{
  "command": "make"
}
```

## 3. tool

Result of **run**

```text
ok
```

## 4. user (undone)

```markdown
no
```

## Effects that cannot be reversed

**publish**, turn 1, 2023-11-14T22:13:22Z

```text
git push
```
"#;
    assert_eq!(markdown(&transcript()), expected);
}

#[test]
fn html_has_anchors_and_times_and_marks() {
    let page = html(&[transcript()]);
    for part in [
        "<title>Fix &lt;the&gt; build</title>",
        "content=\"default-src 'none'; style-src 'unsafe-inline'; ",
        "<section class=\"message assistant\" id=\"claude:1-2\">",
        "<time datetime=\"2023-11-14T22:13:21Z\">",
        "<strong class=\"mark\">undone</strong>",
        "<details><summary>Reasoning</summary>",
        "Calls <strong>run</strong>",
        "Effects that cannot be reversed",
        "git push",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<nav>"));
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn several_sessions_have_a_table_of_contents() {
    let mut other = transcript();
    other.session.id = "a b".to_owned();
    let page = html(&[transcript(), other]);
    for part in ["<h1>2 sessions</h1>", "href=\"#~~claude:1\"", "id=\"~~a~20b\"", "id=\"a~20b-1\""]
    {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(html(&[]).contains("0 sessions"));
}

#[test]
fn long_results_are_collapsed_and_short_ones_are_not() {
    let result = |content: String| {
        let message = MessageRecord {
            role: "tool".into(),
            content: Some(content.into()),
            ..Default::default()
        };
        html(&[Transcript { messages: vec![message], ..Transcript::default() }])
    };
    assert!(result("line\n".repeat(21)).contains("<summary>Result of a tool, 21 lines</summary>"));
    assert!(!result("line\n".repeat(20)).contains("<summary>"));
}

#[test]
fn control_characters_are_shown_as_escapes() {
    let text = "a\0b\u{1b}[31m\u{202e}c]]></pre><script>\r\nd";
    let shown = r"a\u{0}b\u{1b}[31m\u{202e}c]]";
    let transcript = transcript_with(&[text.to_owned()]);
    assert!(
        html(std::slice::from_ref(&transcript))
            .contains(&format!("{shown}&gt;&lt;/pre&gt;&lt;script&gt;\nd"))
    );
    assert!(markdown(&transcript).contains(&format!("{shown}></pre><script>\nd")));
}

#[test]
fn images_are_named_without_their_data() {
    let data = "QUJD".repeat(1_000);
    let mut transcript = transcript_with(&[]);
    transcript.messages = vec![MessageRecord {
        role: "user".to_owned(),
        content: Some(
            json!([{ "type": "image", "source": { "media_type": "image/png", "data": data } }]),
        ),
        ..MessageRecord::default()
    }];
    let page = markdown(&transcript);
    assert!(page.contains("image/png") && page.len() < 500, "{page}");
}

/// Builds a transcript with these strings in every field that holds text.
fn transcript_with(texts: &[String]) -> Transcript {
    let text = |place: usize| texts.get(place % texts.len().max(1)).cloned().unwrap_or_default();
    let messages = json!([
        { "seq": 1, "role": text(0), "content": text(1), "reasoning": text(2) },
        { "seq": 2, "role": "assistant", "content": [
            { "type": "text", "text": text(3) },
            { "type": "tool_use", "name": text(4), "input": { "a": text(5) } },
            { "type": "tool_result", "tool_use_id": text(6), "content": text(0) },
            { "type": text(1), "x": text(2) },
        ], "tool_calls": [{ "function": { "name": text(3), "arguments": text(4) } }] },
        { "seq": 3, "role": "tool", "tool_name": text(5), "content": text(6) },
    ]);
    let mut transcript = Transcript {
        messages: serde_json::from_value::<Vec<MessageRecord>>(messages).unwrap(),
        ..Transcript::default()
    };
    transcript.session.id = text(0);
    transcript.session.title = Some(text(1));
    transcript.session.model = Some(text(2));
    transcript.session.workspace = Some(text(3));
    transcript.session.system_prompt = Some(text(4));
    transcript.effects =
        vec![crate::EffectRecord { kind: text(5), command: text(6), ..Default::default() }];
    transcript
}

const BIDI: [char; 2] = ['\u{202e}', '\u{2066}'];

/// Returns the tags of a page, without its text.
fn tags(page: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '!');
    page.split('<').skip(1).map(|rest| rest.chars().take_while(|c| is_name(*c)).collect()).collect()
}

/// Returns the lines of a Markdown page that are outside fences.
fn outside_fences(page: &str) -> Vec<String> {
    let mut open: Option<String> = None;
    let mut lines = Vec::new();
    for line in page.lines() {
        let fence: String = line.chars().take_while(|c| *c == '`').collect();
        match &open {
            Some(fence) if line == fence => open = None,
            Some(_) => {}
            None if fence.len() >= 3 => open = Some(fence),
            None => lines.push(line.to_owned()),
        }
    }
    assert_eq!(open, None);
    lines
}

/// Replaces every character that could have a meaning in the markup.
fn make_harmless(texts: &[String]) -> Vec<String> {
    let harmless = |c: char| if c == '\n' || c.is_ascii_alphanumeric() { c } else { 'x' };
    texts.iter().map(|text| text.chars().map(harmless).collect()).collect()
}

fn nasty_texts() -> impl Strategy<Value = Vec<String>> {
    let nasty = prop_oneof![
        "[a-c<>&\"'`#=~/! \\-\\[\\]\n\t\r\0\u{202e}é]{0,12}",
        "(```|````|~~~|## user|<!--|-->|</details>|</pre>|<script>|\n| |&lt;|> ){0,6}",
        any::<String>(),
    ];
    // Each string starts with a letter, because blank strings are left out of the page.
    prop::collection::vec(nasty.prop_map(|text| format!("q{text}")), 7)
}

proptest! {
    #[test]
    fn text_never_becomes_tags(texts in nasty_texts()) {
        let page = html(&[transcript_with(&texts), transcript_with(&texts)]);
        prop_assert_eq!(tags(&page), tags(&html(&[transcript_with(&make_harmless(&texts)), transcript_with(&make_harmless(&texts))])));
        prop_assert!(!page.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
        prop_assert!(!page.contains(BIDI));
        for attribute in page.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            prop_assert!(attribute.bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }

    #[test]
    fn text_stays_in_its_fence(texts in nasty_texts()) {
        let page = markdown(&transcript_with(&texts));
        let lines = outside_fences(&page);
        let expected = outside_fences(&markdown(&transcript_with(&make_harmless(&texts))));
        prop_assert_eq!(lines.len(), expected.len());
        for (line, expected) in lines.iter().zip(&expected) {
            let start = |line: &str| line.chars().take(3).collect::<String>();
            prop_assert_eq!(start(line), start(expected));
            prop_assert_eq!(count_bare(line, '<'), count_bare(expected, '<'));
            prop_assert_eq!(count_bare(line, '`'), 0);
        }
    }

    #[test]
    fn all_text_is_shown(texts in prop::collection::vec("q[a-z<>&\"'`#]{0,9}[a-z]", 7)) {
        let page = html(&[transcript_with(&texts)]);
        let text = unescape(&page);
        let source = markdown(&transcript_with(&texts));
        for said in &texts {
            prop_assert!(text.contains(said), "{} is not in {}", said, text);
            let quoted = Value::from(said.as_str()).to_string();
            let quoted = quoted.trim_matches('"');
            prop_assert!(source.contains(said) || source.contains(quoted), "{} is not in {}", said, source);
        }
    }
}

/// Counts how often a character occurs in a line without being escaped by a backslash.
fn count_bare(line: &str, wanted: char) -> usize {
    let mut is_escaped = false;
    let mut count = 0;
    for character in line.chars() {
        count += usize::from(character == wanted && !is_escaped);
        is_escaped = character == '\\' && !is_escaped;
    }
    count
}

fn unescape(page: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
        .into_iter()
        .fold(page.to_owned(), |page, (escape, character)| page.replace(escape, character))
}
