//! The documents in the repository: their links resolve, and the commands that they show exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::session::Session;

/// Lists the documents at the root of the repository, in `docs` and `examples`, in the clients, and
/// in the crates.
fn documents() -> Vec<PathBuf> {
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let others = ["", "docs", "examples", "clients/python", "clients/typescript"];
    let directories = others.map(|name| root.join(name)).into_iter().chain(crates);
    let files = directories.flat_map(|directory| fs::read_dir(directory).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the targets of the links in a document.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the anchors of a document's headings, as GitHub generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_has_an_existing_target() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text).filter(|link| !link.starts_with("https://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link}", document.display());
            if !anchor.is_empty() {
                let text = fs::read_to_string(target).unwrap();
                assert!(anchors(&text).contains(anchor), "{}: {link}", document.display());
            }
        }
    }
}

#[test]
fn the_book_contains_every_document_once() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut chapters: Vec<&str> = links(&summary).collect();
    chapters.sort_unstable();
    let files = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().file_name());
    let files = files.map(|name| name.into_string().unwrap());
    let mut files: Vec<String> =
        files.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    files.sort_unstable();
    assert_eq!(chapters, files);
}

/// Returns the commands that a document shows: the words that follow `takeback` in code.
fn commands(text: &str) -> BTreeSet<Vec<&str>> {
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let starts = ["`takeback ", "$ takeback "];
    let shown = starts.iter().flat_map(|start| text.split(start).skip(1));
    let words = shown.map(|rest| {
        let code = rest.split(['`', '\n']).next().unwrap_or_default();
        let words: Vec<&str> = code.split_whitespace().take_while(is_name).collect();
        let has_subcommands = matches!(words.first(), Some(&("sessions" | "checkpoints")));
        words.into_iter().take(if has_subcommands { 2 } else { 1 }).collect()
    });
    words.filter(|words: &Vec<&str>| !words.is_empty()).collect()
}

#[test]
fn every_command_in_the_documents_exists() {
    let session = Session::new();
    let texts: Vec<String> =
        documents().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let all: BTreeSet<Vec<&str>> = texts.iter().flat_map(|text| commands(text)).collect();
    assert!(all.len() > 20, "{all:?}");
    for words in all {
        let option: &[&str] = if words == ["help"] { &[] } else { &["--help"] };
        let output = session.output(&[&words[..], option].concat());
        assert!(output.status.success(), "{words:?}");
    }
}

#[test]
fn the_table_of_ready_providers_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = fs::read_to_string(path).unwrap();
    for ready in &takeback_runtime::settings::READY_PROVIDERS {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{}` |", ready.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", ready.name));
        let model = ready.model.as_ref().filter(|model| model.prices.is_some());
        let mut parts: Vec<String> =
            [Some(ready.base_url), ready.api_key_env, model.map(|model| model.name)]
                .into_iter()
                .flatten()
                .map(|part| format!("`{part}`"))
                .collect();
        if let Some(prices) = model.and_then(|model| model.prices) {
            let (input, output) = (prices.input, prices.output);
            let (read, write) = (prices.cache_read, prices.cache_write);
            parts.push(format!("{input} / {output} / {read} / {write}"));
        }
        parts.iter().for_each(|part| assert!(row.contains(part.as_str()), "{part}: {row}"));
        let windows = model.map(|model| model.context_window).into_iter();
        for window in windows.chain([ready.context_window]) {
            let plain = row.replace(',', "");
            assert!(plain.contains(&window.to_string()), "{window}: {row}");
        }
    }
}
