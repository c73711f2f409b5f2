//! The list of turns, checkpoints and rollbacks, grouped by day and session.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};
use takeback_tree::Oid;
pub(super) use takeback_undo::view::describe_rollback;
use takeback_undo::{RowView, StepView};

use super::layout::note;
use crate::app::Work;
use crate::text;
use crate::view::filter::{Filter, FilterQuery};
use crate::view::timeline::{Entry, Page, RollbackEntry, Timeline};

/// The longest prompt that a row shows, in characters.
const MAX_PROMPT: usize = 280;

/// A list of entries from one or more timelines.
pub(super) struct ListView<'a> {
    pub(super) work: &'a Work,
    /// The address of the list, without parameters.
    pub(super) address: &'a str,
    pub(super) timelines: &'a [Arc<Timeline>],
    pub(super) filter: &'a Filter,
    /// The checkpoint that the other pane shows.
    pub(super) selected: Option<Oid>,
}

impl ListView<'_> {
    pub(super) fn render(&self, page: &Page) -> Markup {
        let is_first = self.filter.query().before.is_empty();
        html! {
            @if is_first {
                (self.render_filter())
                @for timeline in self.timelines {
                    @for problem in &timeline.problems { (note("warning", &html! { p { (text::visible(problem)) } })) }
                }
            }
            @if page.entries.is_empty() { (self.render_empty()) }
            div .entries data-list=(self.address) data-query=(self.query_string(None)) data-state=(self.find_state()) { @if !page.entries.is_empty() { div .chunk { (self.render_groups(page)) } } }
            @if let Some(next) = &page.next {
                p .more { a href={ (self.address) "?" (self.query_string(Some(&next.to_string()))) } data-more="" { "Older" } }
            } @else if !page.entries.is_empty() {
                p .end .faint { (text::count(page.total as u64, "entry").replace("entrys", "entries")) }
            }
        }
    }

    /// Returns a value that changes when entries of any age change: when turns are taken back or
    /// reinstated, or when checkpoints are named or pinned. New entries alone do not change it.
    fn find_state(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for timeline in self.timelines {
            let rows = timeline.entries.iter().filter_map(|entry| match entry {
                Entry::Row(row) => Some(row.as_ref()),
                Entry::Rollback(_) => None,
            });
            let newest = rows.clone().next().map(|row| row.id);
            timeline.current().filter(|current| Some(*current) != newest).hash(&mut hasher);
            for row in rows.filter(|row| row.taken_back || row.pinned || row.name.is_some()) {
                (row.id, row.taken_back, row.pinned, &row.name).hash(&mut hasher);
            }
        }
        format!("{:x}", hasher.finish())
    }

    fn render_empty(&self) -> Markup {
        html! {
            div .empty {
                @if self.filter.is_active() {
                    h2 { "Nothing matches" }
                    p { "No turn matches this filter. " a href=(self.address) { "Show all" } }
                } @else {
                    h2 { "No checkpoints yet" }
                    p { "They appear before an agent’s next change." }
                    p { "Try: " code { "takeback install claude" } " or " code { "takeback checkpoint" } }
                }
            }
        }
    }

    /// Renders the entries, with a heading for each day and a line for consecutive entries of one
    /// session.
    fn render_groups(&self, page: &Page) -> Markup {
        let app = &self.work.app;
        let now = text::timestamp(self.work.opened.now());
        let day = |(timeline, place): &(Arc<Timeline>, usize)| {
            text::day_name(timeline.entries[*place].time(), now, &app.zone)
        };
        let group = |(timeline, place): &(Arc<Timeline>, usize)| {
            (timeline.id.clone(), timeline.entries[*place].session().map(str::to_owned))
        };
        html! {
            @for days in page.entries.chunk_by(|a, b| day(a) == day(b)) {
                section .day data-day=(day(&days[0])) {
                    h2 { (day(&days[0])) }
                    @for run in days.chunk_by(|a, b| group(a) == group(b)) {
                        (self.render_run(run, now))
                    }
                }
            }
        }
    }

    fn render_run(&self, run: &[(Arc<Timeline>, usize)], now: Timestamp) -> Markup {
        let (timeline, first) = &run[0];
        let session = timeline.entries[*first].session();
        let agent = session.map(text::agent_of).unwrap_or_default();
        let title = session.and_then(|session| timeline.titles.get(session));
        let is_all = self.address == "/";
        html! {
            div .run .{ "hue-" (text::agent_hue(agent)) } data-session=[session] {
                @if let Some(session) = session {
                    p .run-title {
                        span .agent { (text::one_line(agent)) }
                        a href={ "/sessions/" (encode(session)) } { (text::shorten(&text::one_line(title.map_or(short_session(session), String::as_str)), 60)) }
                        @if is_all { " " a .faint href={ "/w/" (timeline.id) } { (workspace_name(timeline)) } }
                        @if timeline.working.contains(session) { span .badge .live { "working now" } }
                    }
                } @else if is_all {
                    p .run-title { a .faint href={ "/w/" (timeline.id) } { (workspace_name(timeline)) } }
                }
                ol .turns {
                    @for (timeline, place) in run {
                        @match &timeline.entries[*place] {
                            Entry::Row(row) => (self.render_row(timeline, row, now)),
                            Entry::Rollback(rollback) => (self.render_rollback(timeline, rollback, now)),
                        }
                    }
                }
            }
        }
    }

    fn render_row(&self, timeline: &Timeline, row: &RowView, now: Timestamp) -> Markup {
        let address = format!("/w/{}/c/{}", timeline.id, row.id);
        let time: Timestamp = row.time.parse().unwrap_or_default();
        let is_here = timeline.current() == Some(row.id);
        let is_selected = self
            .selected
            .is_some_and(|id| row.id == id || row.steps.iter().any(|step| step.id == id));
        let subject = row.prompt.as_deref().unwrap_or(&row.reason);
        let mark = match (is_here, row.kind) {
            (true, _) => "●",
            (_, "manual") => "◆",
            _ => "○",
        };
        html! {
            li .turn .here[is_here] .back[row.taken_back] .manual[row.kind == "manual"] data-id=(row.id) {
                a .row href=(address) aria-current=[is_selected.then_some("true")] data-open="" {
                    span .mark aria-hidden="true" { (mark) }
                    span .subject {
                        @if row.prompt.is_none() && row.kind == "turn" { span .faint { "(no prompt) " } }
                        (text::shorten(&text::one_line(subject), MAX_PROMPT))
                    }
                    (short_time(time, now))
                    span .facts {
                        @if is_here { span .badge .now { "here now" } }
                        @if row.kind == "manual" { span .badge { "by hand" } }
                        @if let Some(name) = &row.name { span .badge .name { (text::one_line(name)) } }
                        @if row.pinned { span .badge { "pinned" } }
                        @if row.taken_back { span .badge { "taken back" } }
                        (counts(row))
                        (effects(row))
                        @if row.late { span .badge .warn title="The agent had moved on before the capture was complete" { "⚠ late" } }
                    }
                }
                @if row.kind == "turn" { (self.render_steps(timeline, row)) }
            }
        }
    }

    fn render_steps(&self, timeline: &Timeline, row: &RowView) -> Markup {
        let step_row = |step: &StepView| {
            let time: Timestamp = step.time.parse().unwrap_or_default();
            html! {
                li {
                    a href={ "/w/" (timeline.id) "/c/" (step.id) } data-open="" aria-current=[(self.selected == Some(step.id)).then_some("true")] {
                        span .number { (step.number) }
                        span .reason { (text::shorten(&text::one_line(step.reason.strip_prefix("before ").unwrap_or(&step.reason)), 160)) }
                        span .faint { (text::clock(time, &self.work.app.zone)) }
                    }
                }
            }
        };
        html! {
            details .steps data-card={ "/w/" (timeline.id) "/c/" (row.id) "/card" } {
                summary { (text::count(row.steps.len().max(1) as u64, "step")) }
                @if row.steps.len() > 1 { ol { @for step in &row.steps { (step_row(step)) } } }
                div .card-files {}
            }
        }
    }

    fn render_rollback(
        &self,
        timeline: &Timeline,
        rollback: &RollbackEntry,
        now: Timestamp,
    ) -> Markup {
        let time: Timestamp = rollback.time.parse().unwrap_or_default();
        let is_selected = self.selected == Some(rollback.id);
        html! {
            li .turn .safety data-id=(rollback.id) {
                a .row href={ "/w/" (timeline.id) "/c/" (rollback.id) } aria-current=[is_selected.then_some("true")] data-open="" {
                    span .mark aria-hidden="true" { "◇" }
                    span .subject { (describe_rollback(rollback)) }
                    (short_time(time, now))
                }
            }
        }
    }

    fn render_filter(&self) -> Markup {
        let FilterQuery { agent, session, text, file, since, until, .. } = self.filter.query();
        let agents: BTreeSet<&str> = self
            .timelines
            .iter()
            .flat_map(|timeline| &timeline.entries)
            .filter_map(|entry| match entry {
                Entry::Row(row) => row.agent.as_deref(),
                Entry::Rollback(_) => None,
            })
            .collect();
        let is_open = !(since.is_empty() && until.is_empty() && file.is_empty());
        html! {
            form .filter action=(self.address) role="search" aria-label="Filter the timeline" {
                input type="search" name="text" value=(text) placeholder="Filter this list" title="Words of a prompt, a command or a name" aria-label="Filter by text" autocomplete="off";
                @if agents.len() > 1 || !agent.is_empty() {
                    select name="agent" aria-label="Agent" data-submit="" {
                        option value="" { "All agents" }
                        @for known in &agents { option value=(known) selected[*known == agent.as_str()] { (text::one_line(known)) } }
                    }
                }
                @if !session.is_empty() { input type="hidden" name="session" value=(session); }
                details .dates open[is_open] {
                    summary { "More" }
                    label { "File " input type="search" name="file" value=(file) placeholder="src/cart.py" autocomplete="off"; }
                    label { "From " input type="date" name="since" value=(since); }
                    label { "to " input type="date" name="until" value=(until); }
                }
                button { "Filter" }
                @if self.filter.is_active() { a href=(self.address) { "Clear" } }
                @if !session.is_empty() { p .faint { "Only session " a href={ "/sessions/" (encode(session)) } { (self.session_name(session)) } ". " a href=(self.address) { "Show all" } } }
            }
        }
    }

    /// Returns the title of a session, or its id if it has none.
    fn session_name(&self, session: &str) -> String {
        let title = self.timelines.iter().find_map(|timeline| timeline.titles.get(session));
        text::shorten(&text::one_line(title.map_or(session, String::as_str)), 60)
    }

    fn query_string(&self, before: Option<&str>) -> String {
        let FilterQuery { agent, session, text, file, since, until, .. } = self.filter.query();
        let pairs = [
            ("agent", agent.as_str()),
            ("session", session),
            ("text", text),
            ("file", file),
            ("since", since),
            ("until", until),
            ("before", before.unwrap_or_default()),
        ];
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<String> =
            pairs.map(|(name, value)| format!("{name}={}", encode(value))).collect();
        pairs.join("&")
    }
}

/// Returns the agent's own id for a session, without the name of the agent.
fn short_session(session: &str) -> &str {
    session.split_once(':').map_or(session, |(_, own)| own)
}

/// Returns the name of a workspace's directory.
fn workspace_name(timeline: &Timeline) -> String {
    let name = timeline.path.file_name().unwrap_or(timeline.path.as_os_str());
    text::one_line(&name.to_string_lossy())
}

fn short_time(time: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(time) { (text::relative(time, now)) } }
}

/// Renders the counts of a row: files, lines added, lines removed.
pub(super) fn counts(row: &RowView) -> Markup {
    let (Some(files), Some(added), Some(removed)) =
        (row.files_changed, row.insertions, row.deletions)
    else {
        return html! {};
    };
    html! {
        span .counts {
            (text::count(files, "file"))
            @if added > 0 { " " span .added { "+" (text::group_digits(added)) } }
            @if removed > 0 { " " span .removed { "−" (text::group_digits(removed)) } }
        }
    }
}

/// Renders the kinds of a row's effects, with the commands as a tooltip.
fn effects(row: &RowView) -> Markup {
    html! {
        @for kind in text::effect_kinds(&row.effects) {
            @let commands = row.effects.iter().filter(|effect| effect.kind == kind);
            @let commands: Vec<String> = commands.map(|effect| text::shorten(&text::one_line(&effect.command), 200)).collect();
            span .badge .warn title=(commands.join("\n")) { "⚠ " (text::one_line(kind)) }
        }
    }
}

/// Encodes a value for use in a URL.
pub(super) fn encode(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
