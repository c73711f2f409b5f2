//! Diffs: unified or side by side, with changed words marked.

use maud::{Markup, html};
use takeback_tree::{Store, StoreError, TreeChange};

use super::files::{describe, kind_sign, line_counts};
use super::timeline::encode;
use crate::problem::WorkError;
use crate::text;
use crate::view::diff::{FileDiff, Line, Section, diff_file};
use crate::view::timeline::Entry;
use crate::view::turn::{Compared, TurnView};

/// The number of lines of a file above which it is folded.
const MAX_OPEN: usize = 600;

/// The number of lines in a page after which files are only loaded when they are unfolded.
const MAX_LINES: usize = 3_000;

/// The number of files in a page after which files are only loaded when they are unfolded.
const MAX_FILES: usize = 100;

/// The number of checkpoints that the list of other states offers.
const OTHERS: usize = 100;

/// The way in which a file is shown.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) is_split: bool,
    pub(super) is_whole: bool,
}

/// The tab with the diff of a turn.
pub(super) struct DiffPage<'a> {
    pub(super) address: &'a str,
    pub(super) turn: &'a TurnView,
    pub(super) compared: &'a Compared,
    pub(super) is_split: bool,
}

impl DiffPage<'_> {
    pub(super) fn render(
        &self,
        store: &Store,
        changes: &[TreeChange],
    ) -> Result<Markup, WorkError> {
        let options = Options { is_split: self.is_split, is_whole: false };
        let mut lines = 0;
        let mut files = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            // What does not fit is loaded when the user unfolds it.
            let body = match index < MAX_FILES && lines < MAX_LINES {
                true => Some(diff_file(store, change, false).map_err(StoreError::from)?),
                false => None,
            };
            lines += body.as_ref().map_or(0, FileDiff::len);
            let is_open = body.as_ref().is_some_and(|body| body.len() <= MAX_OPEN);
            files.push(self.render_file(change, body.as_ref(), is_open, options));
        }
        Ok(html! {
            (self.render_tools())
            @if changes.is_empty() { div .empty { h2 { "No difference" } p { "Both states hold the same files." } } }
            @for file in &files { (file) }
        })
    }

    fn link(&self, to: &Compared, is_split: bool) -> String {
        let split = if is_split { "1" } else { "0" };
        format!("{}?tab=diff&to={to}&split={split}", self.address)
    }

    fn render_tools(&self) -> Markup {
        let states = [(Compared::Turn, self.own_label()), (Compared::Now, "Since then, until now")];
        let rows = self.turn.timeline.entries.iter().filter_map(|entry| match entry {
            Entry::Row(row) if row.id != self.turn.checkpoint.id => Some(row),
            _ => None,
        });
        html! {
            div .diff-tools {
                nav .choice aria-label="Compare with" {
                    @for (state, label) in &states {
                        a href=(self.link(state, self.is_split)) aria-current=[(self.compared == state).then_some("true")] data-tab="" { (label) }
                    }
                }
                form .against action=(self.address) data-tab="" {
                    input type="hidden" name="tab" value="diff";
                    input type="hidden" name="split" value=(u8::from(self.is_split));
                    select name="to" aria-label="Compare with another checkpoint" data-submit="" {
                        option value="turn" { "Another checkpoint…" }
                        @for row in rows.take(OTHERS) {
                            @let is_it = *self.compared == Compared::Checkpoint(row.id.to_string());
                            option value=(row.id) selected[is_it] { (row.number) "  " (text::shorten(&text::one_line(row.prompt.as_deref().unwrap_or(&row.reason)), 50)) }
                        }
                    }
                    noscript { button { "Compare" } }
                }
                nav .choice aria-label="View" {
                    a href=(self.link(self.compared, false)) aria-current=[(!self.is_split).then_some("true")] data-tab="" data-view="unified" { "Unified" }
                    a href=(self.link(self.compared, true)) aria-current=[self.is_split.then_some("true")] data-tab="" data-view="split" { "Side by side" }
                }
            }
        }
    }

    fn own_label(&self) -> &'static str {
        match self.turn.checkpoint.kind {
            "manual" => "Until the next checkpoint",
            "safety" => "This rollback",
            _ => "This turn",
        }
    }

    fn render_file(
        &self,
        change: &TreeChange,
        body: Option<&FileDiff>,
        is_open: bool,
        options: Options,
    ) -> Markup {
        let path = text::path_json(&change.path);
        let split = u8::from(options.is_split);
        let source = format!(
            "{}/file?path={}&to={}&split={split}",
            self.address,
            encode(&path),
            self.compared
        );
        let lines = body.map(FileDiff::len);
        html! {
            details .diff-file open[is_open] data-source=[body.is_none().then_some(&source)] {
                summary {
                    (kind_sign(&change.kind))
                    code .name { bdi { (change.path) } }
                    @if let Some(words) = describe(change) { span .faint { (words) } }
                    (line_counts(change))
                    @if matches!(body, Some(FileDiff::Lines(_))) {
                        button type="button" .small .quiet data-whole={ (source) "&whole=1" } { "Whole file" }
                    }
                }
                div .diff-body {
                    @match (body, lines) {
                        (Some(body), _) => (render_lines(body, options)),
                        (None, _) => p .faint { "Loading…" },
                    }
                }
            }
        }
    }
}

/// Renders the content of one file.
pub(super) fn render_body(
    store: &Store,
    change: &TreeChange,
    options: Options,
) -> Result<Markup, WorkError> {
    let body = diff_file(store, change, options.is_whole).map_err(StoreError::from)?;
    Ok(render_lines(&body, options))
}

fn render_lines(body: &FileDiff, options: Options) -> Markup {
    let sections = match body {
        FileDiff::Note(note) => return html! { p .diff-note { (note) } },
        FileDiff::Lines(sections) => sections,
    };
    html! {
        table .diff .split[options.is_split] {
            @if options.is_split {
                colgroup { col .line-number; col; col .line-number; col; }
                @for section in sections { (split_rows(section)) }
            } @else {
                colgroup { col .line-number; col .line-number; col .line-sign; col; }
                @for section in sections { (unified_rows(section)) }
            }
        }
    }
}

fn unified_rows(section: &Section) -> Markup {
    let changed = |line: &Line, is_new: bool| {
        let (class, sign) = if is_new { ("added", "+") } else { ("removed", "−") };
        html! {
            tr class=(class) {
                td .n { @if !is_new { (line.number) } }
                td .n { @if is_new { (line.number) } }
                td .sign { (sign) }
                td .code { (parts(line)) }
            }
        }
    };
    match section {
        Section::Fold(count) => fold(*count, 4),
        Section::Same(lines) => html! {
            @for (old, new, text) in lines {
                tr { td .n { (old) } td .n { (new) } td .sign {} td .code { (text) } }
            }
        },
        Section::Changed { old, new } => html! {
            @for line in old { (changed(line, false)) }
            @for line in new { (changed(line, true)) }
        },
    }
}

fn split_rows(section: &Section) -> Markup {
    let side = |line: Option<&Line>, class: &str| match line {
        Some(line) => {
            html! { td class={ "n " (class) } { (line.number) } td class={ "code " (class) } { (parts(line)) } }
        }
        None => html! { td .n .void {} td .code .void {} },
    };
    match section {
        Section::Fold(count) => fold(*count, 4),
        Section::Same(lines) => html! {
            @for (old, new, text) in lines {
                tr { td .n { (old) } td .code { (text) } td .n { (new) } td .code { (text) } }
            }
        },
        Section::Changed { old, new } => html! {
            @for index in 0..old.len().max(new.len()) {
                tr { (side(old.get(index), "removed")) (side(new.get(index), "added")) }
            }
        },
    }
}

fn fold(count: usize, columns: usize) -> Markup {
    html! { tr .fold { td colspan=(columns) { (text::count(count as u64, "unchanged line")) } } }
}

fn parts(line: &Line) -> Markup {
    html! { @for (is_marked, text) in &line.parts { @if *is_marked { mark { (text) } } @else { (text) } } }
}
