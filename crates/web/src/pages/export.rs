//! A turn, a session or a day as one file that needs nothing else: no server, no scripts, no
//! network. Secrets are masked in everything that is written.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::Date;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use takeback_ledger::render::session_title;
use takeback_ledger::{MessageRecord, SessionRecord, mask_transcript};
use takeback_tree::{Store, StoreError, TreeChange};
use takeback_undo::view::{DiffView, FileDiff, Image, diff_file, image_type};

use super::sessions::find_checkpoints;
use super::timeline::{counts, describe_rollback};
use super::{conversation, diff, files, turn};
use crate::app::Work;
use crate::assets;
use crate::problem::{Problem, WorkError};
use crate::text::{self, mask_text};
use crate::view::timeline::Entry;
use crate::view::turn::{Compared, TurnView};

/// After this many lines of diffs, further diffs are left out.
const MAX_LINES: usize = 30_000;

/// The maximum total size of the pictures in a file, in bytes. Further pictures are left out.
const MAX_PICTURES: u64 = 8 << 20;

/// The maximum number of turns in a file.
const MAX_TURNS: usize = 500;

/// The part of the history that a file shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportSubject {
    /// A turn, step or checkpoint.
    Turn {
        /// The id of the workspace.
        workspace: String,
        /// The id of the checkpoint.
        checkpoint: String,
    },
    /// A conversation with its turns, by the id of its session.
    Session(String),
    /// Everything that happened on a day, in all workspaces.
    Day(Date),
}

/// Writes a part of the history as one file.
pub(crate) fn export(work: &Work, subject: &ExportSubject) -> Result<String, WorkError> {
    let mut writer = Writer { work, lines: 0, pictures: 0, sessions: BTreeMap::new() };
    let (title, body) = match subject {
        ExportSubject::Turn { workspace, checkpoint } => {
            let turn = writer.read_turn(workspace, checkpoint)?;
            let title = text::shorten(&turn::subject_of(&turn), 80);
            (title, writer.render_turn(workspace, &turn, true)?)
        }
        ExportSubject::Session(id) => writer.render_session(id)?,
        ExportSubject::Day(day) => writer.render_day(*day)?,
    };
    Ok(page(work, &title, &body).into_string())
}

fn page(work: &Work, title: &str, body: &Markup) -> Markup {
    let now = text::timestamp(work.opened.now());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                title { (title) " · takeback" }
                link rel="icon" href="data:,";
                style { (PreEscaped(assets::STYLES.concat())) }
            }
            body .exported {
                header .export-head {
                    p .brand { span .logo aria-hidden="true" { "↩" } "takeback" }
                    p .faint { "Exported " (text::absolute(now, &work.app.zone)) ". Secrets are masked. Nothing can be changed from here." }
                }
                main #main { (body) }
            }
        }
    }
}

/// A writer that collects the parts of a file, and keeps track of the limits on its size.
struct Writer<'w> {
    work: &'w Work,
    lines: usize,
    pictures: u64,
    /// The sessions that were read, with their secrets masked.
    sessions: BTreeMap<String, Option<(SessionRecord, Vec<MessageRecord>)>>,
}

impl Writer<'_> {
    /// Reads a session, with its secrets masked.
    fn session(
        &mut self,
        id: &str,
    ) -> Result<Option<&(SessionRecord, Vec<MessageRecord>)>, WorkError> {
        if !self.sessions.contains_key(id) {
            let found = match self.work.ledger()? {
                Some(ledger) => ledger.transcript(id).ok().map(|mut transcript| {
                    mask_transcript(&mut transcript);
                    (transcript.session, transcript.messages)
                }),
                None => None,
            };
            self.sessions.insert(id.to_owned(), found);
        }
        Ok(self.sessions.get(id).and_then(Option::as_ref))
    }

    /// Reads a turn, with its secrets masked.
    fn read_turn(&self, workspace: &str, id: &str) -> Result<TurnView, WorkError> {
        let mut turn = self.work.turn(workspace, id)?;
        let view = &mut turn.checkpoint;
        view.prompt = view.prompt.as_deref().map(mask_text);
        view.reason = mask_text(&view.reason);
        view.effects.iter_mut().for_each(|effect| effect.command = mask_text(&effect.command));
        Ok(turn)
    }

    fn render_session(&mut self, typed: &str) -> Result<(String, Markup), WorkError> {
        let work = self.work;
        let id = {
            let ledger = work.ledger()?.ok_or_else(|| Problem::not_found("session"))?;
            ledger.resolve(typed)?
        };
        let places = find_checkpoints(work, &id)?;
        let Some((session, messages)) = self.session(&id)?.cloned() else {
            return Err(Problem::not_found("session").into());
        };
        let mut turns = Vec::new();
        for (workspace, checkpoint) in places.values().take(MAX_TURNS) {
            let turn = self.read_turn(workspace, checkpoint)?;
            turns.push(self.render_turn(workspace, &turn, false)?);
        }
        let title = text::shorten(&text::one_line(session_title(&session)), 80);
        let zone = &work.app.zone;
        let body = html! {
            header .session-head .{ "hue-" (text::agent_hue(&session.source)) } {
                h1 { (text::one_line(session_title(&session))) }
                p .meta {
                    span .agent { (text::one_line(&session.source)) }
                    @if let Some(model) = &session.model { span { (text::one_line(model)) } }
                    span { (text::count(messages.len() as u64, "message")) }
                    @if let Some(path) = &session.workspace { span .path { bdi { (work.app.tilde(path.as_ref())) } } }
                }
            }
            section { h2 { "Conversation" } div .messages { @for message in &messages { (conversation::render_message(message, zone)) } } }
            @if !turns.is_empty() { section { h2 { "Changes of this session" } @for turn in &turns { (turn) } } }
        };
        Ok((title, body))
    }

    fn render_day(&mut self, day: Date) -> Result<(String, Markup), WorkError> {
        let work = self.work;
        let zone = &work.app.zone;
        let mut found = Vec::new();
        for timeline in work.all_timelines()? {
            for (place, entry) in timeline.entries.iter().enumerate() {
                if entry.time().to_zoned(zone.clone()).date() == day {
                    found.push((entry.time(), timeline.clone(), place));
                }
            }
        }
        found.sort_by_key(|(time, ..)| *time);
        let left_out = found.len().saturating_sub(MAX_TURNS);
        let total = found.len();
        let mut entries = Vec::new();
        for (_, timeline, place) in found.into_iter().take(MAX_TURNS) {
            let id = timeline.entries[place].id().to_string();
            let turn = self.read_turn(&timeline.id, &id)?;
            entries.push(self.render_turn(&timeline.id, &turn, false)?);
        }
        let title = day.strftime("%A, %-d %B %Y").to_string();
        let body = html! {
            header .session-head {
                h1 { (title) }
                p .meta { (text::count(total as u64, "turn, checkpoint or rollback").replace("rollbacks", "rollbacks in all")) }
            }
            @if entries.is_empty() { div .empty { h2 { "Nothing happened" } p { "No turn, checkpoint or rollback is known for this day." } } }
            @for entry in &entries { (entry) }
            @if left_out > 0 { p .note { (text::count(left_out as u64, "later entry").replace("entrys", "entries")) " left out." } }
        };
        Ok((title, body))
    }

    /// Renders a turn, in full or with its parts folded.
    fn render_turn(
        &mut self,
        workspace: &str,
        turn: &TurnView,
        is_whole: bool,
    ) -> Result<Markup, WorkError> {
        let view = &turn.checkpoint;
        let changes = self.work.changes(workspace, &view.id.to_string(), &Compared::Turn, &[])?;
        let diffs = self.render_diffs(workspace, &changes)?;
        let messages = self.turn_messages(workspace, turn)?;
        let time: Timestamp = view.time.parse().unwrap_or_default();
        let agent = view.agent.as_deref().unwrap_or_default();
        let is_back = matches!(turn.entry(), Some(Entry::Row(row)) if row.taken_back);
        let subject = match turn.entry() {
            Some(Entry::Rollback(rollback)) => mask_text(&describe_rollback(rollback)),
            _ => text::visible(view.prompt.as_deref().unwrap_or(&view.reason).trim_end()),
        };
        let zone = &self.work.app.zone;
        let section = |title: &str, is_open: bool, content: Markup| {
            html! { details .part open[is_open] { summary { h3 { (title) } } div .part-body { (content) } } }
        };
        Ok(html! {
            article .exported-turn .back[is_back] .{ "hue-" (text::agent_hue(agent)) } {
                header .turn-head {
                    h2 .prompt { (subject) }
                    p .meta {
                        @if !agent.is_empty() { span .agent { (text::one_line(agent)) } }
                        time datetime=(time) { (text::absolute(time, zone)) }
                        span .path { bdi { (self.work.app.tilde(&turn.timeline.path)) } }
                        @if let Some(Entry::Row(row)) = turn.entry() { (counts(row)) }
                        @if is_back { span .badge { "taken back" } }
                        @if let Some(name) = &view.name { span .badge .name { (text::one_line(name)) } }
                        @for kind in text::effect_kinds(&view.effects) { span .badge .warn { "⚠ " (text::one_line(kind)) } }
                        code .id { (&view.id.to_string()[..7]) }
                    }
                }
                @if !changes.is_empty() { (section("Files", is_whole, files::render_list(&changes))) }
                @if !changes.is_empty() { (section("Diff", is_whole, diffs)) }
                @if let Some(messages) = &messages {
                    (section("Conversation", is_whole, html! { div .messages { @for message in messages { (conversation::render_message(message, zone)) } } }))
                }
                @if !view.effects.is_empty() || is_whole { (section("Effects", is_whole, turn::render_effects(turn))) }
                @if !view.uncovered.is_empty() { (section("Not protected", false, turn::render_coverage(turn))) }
            }
        })
    }

    /// Finds the messages of a turn, with their secrets masked.
    fn turn_messages(
        &mut self,
        workspace: &str,
        turn: &TurnView,
    ) -> Result<Option<Vec<MessageRecord>>, WorkError> {
        let Some(session) = &turn.checkpoint.session else { return Ok(None) };
        let Some(own) = self.work.turn_messages(workspace, &turn.checkpoint.id)? else {
            return Ok(None);
        };
        let Some((_, messages)) = self.session(session)? else { return Ok(None) };
        let is_own = |message: &&MessageRecord| own.iter().any(|known| known.seq == message.seq);
        let found: Vec<MessageRecord> = messages.iter().filter(is_own).cloned().collect();
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    fn render_diffs(
        &mut self,
        workspace: &str,
        changes: &[TreeChange],
    ) -> Result<Markup, WorkError> {
        let store = self.work.workspace(workspace)?.store();
        let view = DiffView { is_masked: true, ..DiffView::default() };
        let options = diff::Options { is_split: false, view };
        let mut shown = Vec::new();
        for change in changes {
            if self.lines >= MAX_LINES {
                break;
            }
            let body = diff_file(store, change, view).map_err(StoreError::from)?;
            self.lines += body.len();
            let pictures = self.read_pictures(store, &body)?;
            let image = |side: &str| pictures[usize::from(side == "new")].clone();
            let content = diff::render_content(&body, options, &image);
            shown.push(html! {
                details .diff-file open[diff::is_open(&body)] {
                    summary { (diff::file_head(change)) }
                    div .diff-body { (content) }
                }
            });
        }
        let left_out = changes.len() - shown.len();
        Ok(html! {
            @for file in &shown { (file) }
            @if left_out > 0 { p .note { "The diffs of " (text::count(left_out as u64, "more file")) " are left out, because this file would be too large." } }
        })
    }

    /// Reads the old and the new version of a picture as `data:` addresses.
    fn read_pictures(&mut self, store: &Store, body: &FileDiff) -> Result<[String; 2], WorkError> {
        let FileDiff::Images(sides) = body else { return Ok(Default::default()) };
        let mut found = <[String; 2]>::default();
        for (Image { oid, size }, place) in
            sides.iter().zip(&mut found).filter_map(|(side, place)| Some((side.as_ref()?, place)))
        {
            if self.pictures + size > MAX_PICTURES {
                continue;
            }
            let bytes = store.blob(oid).map_err(StoreError::from)?;
            if let Some(kind) = image_type(&bytes) {
                self.pictures += size;
                *place = format!("data:{kind};base64,{}", STANDARD.encode(&bytes));
            }
        }
        Ok(found)
    }
}
