//! Diffs: unified or side by side, with changed words marked.

use maud::{Markup, html};
use takeback_base::text::format_bytes;
use takeback_tree::{Store, StoreError, TreeChange};
use takeback_undo::view::{DiffView, FileDiff, Image, Line, Part, Section, Token, diff_file};

use super::files::{describe, kind_sign, line_counts};
use super::timeline::encode;
use crate::problem::WorkError;
use crate::text;
use crate::view::timeline::Entry;
use crate::view::turn::{Compared, TurnView};

/// The number of lines above which a file is folded.
const MAX_OPEN: usize = 600;

/// After this many lines in a page, further files are loaded only when they are unfolded.
const MAX_LINES: usize = 3_000;

/// After this many files in a page, further files are loaded only when they are unfolded.
const MAX_FILES: usize = 100;

/// The number of checkpoints in the list of states to compare with.
const OTHERS: usize = 100;

/// The size of a picture above which it is folded, in bytes.
const MAX_IMAGE: u64 = 1 << 20;

/// The display options of a file.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) is_split: bool,
    pub(super) view: DiffView,
}

impl Options {
    /// Formats the options as query parameters.
    fn query(self) -> String {
        let (split, loose) = (u8::from(self.is_split), u8::from(self.view.is_loose));
        format!("split={split}{}", if loose == 1 { "&loose=1" } else { "" })
    }
}

/// The tab with the diff of a turn.
pub(super) struct DiffPage<'a> {
    pub(super) address: &'a str,
    pub(super) turn: &'a TurnView,
    pub(super) compared: &'a Compared,
    pub(super) options: Options,
}

impl DiffPage<'_> {
    pub(super) fn render(
        &self,
        store: &Store,
        changes: &[TreeChange],
    ) -> Result<Markup, WorkError> {
        let mut lines = 0;
        let mut files = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            // Files beyond these limits are loaded when the user unfolds them.
            let body = match index < MAX_FILES && lines < MAX_LINES {
                true => {
                    Some(diff_file(store, change, self.options.view).map_err(StoreError::from)?)
                }
                false => None,
            };
            lines += body.as_ref().map_or(0, FileDiff::len);
            files.push(self.render_file(change, body.as_ref()));
        }
        Ok(html! {
            (self.render_tools())
            @if changes.is_empty() { div .empty { h2 { "No difference" } p { "Both states hold the same files." } } }
            @for file in &files { (file) }
        })
    }

    fn link(&self, to: &Compared, options: Options) -> String {
        format!("{}?tab=diff&to={}&{}", self.address, encode(&to.to_string()), options.query())
    }

    fn render_tools(&self) -> Markup {
        let states = [(Compared::Turn, self.own_label()), (Compared::Now, "Since then, until now")];
        let rows = self.turn.timeline.entries.iter().filter_map(|entry| match entry {
            Entry::Row(row) if row.id != self.turn.checkpoint.id => Some(row),
            _ => None,
        });
        let Options { is_split, view } = self.options;
        let with = |is_split, is_loose| Options { is_split, view: DiffView { is_loose, ..view } };
        let other = match self.compared {
            Compared::Checkpoint(id) => id.as_str(),
            _ => "",
        };
        html! {
            div .diff-tools {
                nav .choice aria-label="Compare with" {
                    @for (state, label) in &states {
                        a href=(self.link(state, self.options)) aria-current=[(self.compared == state).then_some("true")] data-tab="" { (label) }
                    }
                }
                form .against action=(self.address) data-tab="" {
                    input type="hidden" name="tab" value="diff";
                    input type="hidden" name="split" value=(u8::from(is_split));
                    input type="search" name="to" value=(other) list="other-checkpoints" placeholder="Another checkpoint: name or id" aria-label="Compare with another checkpoint" data-submit="" autocomplete="off";
                    datalist #other-checkpoints {
                        @for row in rows.take(OTHERS) {
                            option value=(row.id.to_string()[..10]) { (text::shorten(&text::one_line(row.prompt.as_deref().unwrap_or(&row.reason)), 60)) }
                        }
                    }
                    noscript { button { "Compare" } }
                }
                nav .choice .views aria-label="View" {
                    a href=(self.link(self.compared, with(false, view.is_loose))) aria-current=[(!is_split).then_some("true")] data-tab="" data-view="unified" { "Unified" }
                    a href=(self.link(self.compared, with(true, view.is_loose))) aria-current=[is_split.then_some("true")] data-tab="" data-view="split" { "Side by side" }
                }
                nav .choice aria-label="Spaces" {
                    a href=(self.link(self.compared, with(is_split, !view.is_loose))) aria-current=[view.is_loose.then_some("true")] data-tab="" title="Leave out changes that affect only spaces" { "Ignore spaces" }
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

    /// Renders the agent that made the changes of the turn. Other comparisons may show changes by
    /// several authors.
    fn render_author(&self) -> Markup {
        let view = &self.turn.checkpoint;
        let agent = view.agent.as_deref().filter(|_| {
            *self.compared == Compared::Turn && view.kind != "safety" && view.kind != "manual"
        });
        html! {
            @if let Some(agent) = agent {
                span .agent .{ "hue-" (text::agent_hue(agent)) } { (text::one_line(agent)) }
            }
        }
    }

    fn render_file(&self, change: &TreeChange, body: Option<&FileDiff>) -> Markup {
        let path = encode(&text::path_json(&change.path));
        let Self { address, options, .. } = self;
        let to = encode(&self.compared.to_string());
        let source = format!("{address}/file?path={path}&to={to}&{}", options.query());
        let image = |side: &str| format!("{address}/image?path={path}&to={to}&side={side}");
        html! {
            details .diff-file data-path=(text::path_json(&change.path)) open[body.is_some_and(is_open)] data-source=[body.is_none().then_some(&source)] {
                summary { (file_head(change)) (self.render_author()) span .since {} }
                @if matches!(body, Some(FileDiff::Lines(_))) {
                    button type="button" .small .quiet data-whole={ (source) "&whole=1" } { "Whole file" }
                }
                div .diff-body {
                    @match body {
                        Some(body) => (render_content(body, *options, &image)),
                        None => p .faint { "Loading…" },
                    }
                }
            }
        }
    }
}

/// Renders the kind of change, the path, and the numbers of added and removed lines.
pub(super) fn file_head(change: &TreeChange) -> Markup {
    html! {
        (kind_sign(&change.kind))
        code .name { bdi { (change.path) } }
        @if let Some(words) = describe(change) { span .faint { (words) } }
        (line_counts(change))
    }
}

/// Returns true if a file is shown unfolded from the start.
pub(super) fn is_open(body: &FileDiff) -> bool {
    match body {
        FileDiff::Images(sides) => sides.iter().flatten().all(|side| side.size <= MAX_IMAGE),
        body => body.len() <= MAX_OPEN,
    }
}

/// Renders the content of one file. `image` returns the address of the old or the new picture.
pub(super) fn render_content(
    body: &FileDiff,
    options: Options,
    image: &dyn Fn(&str) -> String,
) -> Markup {
    let sections = match body {
        FileDiff::Note(note) => return html! { p .diff-note { (note) } },
        FileDiff::Images(sides) => return render_images(sides, image),
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

/// Renders the old and the new version of a picture beside each other.
fn render_images(sides: &[Option<Image>; 2], image: &dyn Fn(&str) -> String) -> Markup {
    let [old, new] = sides;
    let figure = |side: &Option<Image>, name: &str, label: &str| {
        html! {
            figure class=(name) {
                @if let Some(side) = side {
                    @let source = image(name);
                    @if source.is_empty() { p .faint { "Left out: too large, or not a picture" } }
                    @else { img src=(source) alt=(label) loading="lazy"; }
                    figcaption { (label) " · " (format_bytes(side.size)) }
                } @else {
                    p .faint { "No picture" }
                    figcaption { (label) }
                }
            }
        }
    };
    html! { div .images { (figure(old, "old", "Before")) (figure(new, "new", "After")) } }
}

fn unified_rows(section: &Section) -> Markup {
    let changed = |line: &Line, is_new: bool| {
        let (class, sign) = if is_new { ("added", "+") } else { ("removed", "−") };
        html! {
            tr class=(class) {
                td .n { @if !is_new { (line.number) } }
                td .n { @if is_new { (line.number) } }
                td .sign { (sign) }
                td .code { (parts(&line.parts)) }
            }
        }
    };
    match section {
        Section::Fold(count) => fold(*count, 4),
        Section::Same(lines) => html! {
            @for (old, new, text) in lines {
                tr { td .n { (old) } td .n { (new) } td .sign {} td .code { (parts(text)) } }
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
            html! { td class={ "n " (class) } { (line.number) } td class={ "code " (class) } { (parts(&line.parts)) } }
        }
        None => html! { td .n .void {} td .code .void {} },
    };
    match section {
        Section::Fold(count) => fold(*count, 4),
        Section::Same(lines) => html! {
            @for (old, new, text) in lines {
                tr { td .n { (old) } td .code { (parts(text)) } td .n { (new) } td .code { (parts(text)) } }
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

fn parts(parts: &[Part]) -> Markup {
    html! {
        @for Part { is_marked, token, text } in parts {
            @match (is_marked, class_of(*token)) {
                (true, class) => mark class=[class] { (text) },
                (false, Some(class)) => span class=(class) { (text) },
                (false, None) => (text),
            }
        }
    }
}

/// Returns the CSS class for a token.
fn class_of(token: Token) -> Option<&'static str> {
    Some(match token {
        Token::Plain => return None,
        Token::Comment => "hl-c",
        Token::Text => "hl-s",
        Token::Number => "hl-n",
        Token::Keyword => "hl-k",
        Token::Type => "hl-t",
        Token::Call => "hl-f",
        Token::Key => "hl-y",
    })
}
