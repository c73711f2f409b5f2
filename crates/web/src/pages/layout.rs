//! The frame around every page: the head, the panes, and messages.

use maud::{DOCTYPE, Markup, html};
use takeback_undo::Action;

use crate::app::Work;
use crate::problem::{Problem, WorkError};
use crate::text;
use crate::view::timeline::{RollbackEntry, WorkspaceSummary};

/// The content of a page's head: the chosen workspace, the other workspaces, and the last rollback.
pub(super) struct Shell {
    workspace: Option<String>,
    pub(super) path: Option<String>,
    workspaces: Vec<(String, String)>,
    last: Option<RollbackEntry>,
    now: jiff::Timestamp,
}

impl Shell {
    pub(super) fn new(work: &Work, workspace: Option<&str>) -> Result<Shell, WorkError> {
        let shown = |known: WorkspaceSummary| (known.id, work.app.tilde(&known.path));
        let timeline = workspace.map(|id| work.timeline(id)).transpose()?;
        Ok(Shell {
            workspace: workspace.map(str::to_owned),
            path: timeline.as_ref().map(|timeline| work.app.tilde(&timeline.path)),
            workspaces: work.workspaces()?.into_iter().map(shown).collect(),
            last: timeline.and_then(|timeline| timeline.last_rollback().cloned()),
            now: text::timestamp(work.opened.now()),
        })
    }

    /// Renders a whole page. `place` is the name of the link to this page in the head.
    pub(super) fn render(&self, title: &str, place: &str, main: &Markup) -> Markup {
        let timeline = self.workspace.as_ref().map_or("/".to_owned(), |id| format!("/w/{id}"));
        let links = [
            ("timeline", "Timeline", timeline.as_str()),
            ("chat", "Chat", "/chat"),
            ("sessions", "Sessions", "/sessions"),
            ("usage", "Usage", "/usage"),
            ("health", "Health", "/health"),
        ];
        html! {
            (DOCTYPE)
            html lang="en" {
                (head(title, place == "chat"))
                body data-workspace=[self.workspace.as_ref()] {
                    a .skip href="#main" { "Skip to the content" }
                    header .bar {
                        a .brand href="/" title="All workspaces" { span .logo aria-hidden="true" { "↩" } "takeback" }
                        (self.workspace_menu())
                        form .find role="search" action="/search" {
                            input type="search" name="q" placeholder="Search everything" aria-label="Search all conversations" data-key="/" autocomplete="off";
                        }
                        nav .places aria-label="Pages" {
                            @for (name, label, address) in links {
                                a href=(address) aria-current=[(name == place).then_some("page")] { (label) }
                            }
                        }
                        (self.last_action())
                    }
                    main #main tabindex="-1" { (main) }
                    div #toasts role="status" aria-live="polite" {}
                    dialog #confirm aria-labelledby="confirm-title" {}
                    dialog #keys aria-labelledby="keys-title" { (keys_help()) }
                }
            }
        }
    }

    fn workspace_menu(&self) -> Markup {
        let current = self.path.as_deref().unwrap_or("All workspaces");
        html! {
            details .menu {
                summary title=(current) { span .path { bdi { (current) } } }
                ul {
                    li { a href="/" aria-current=[self.workspace.is_none().then_some("true")] { "All workspaces" } }
                    @for (id, path) in &self.workspaces {
                        li { a href={ "/w/" (id) } aria-current=[(self.workspace.as_ref() == Some(id)).then_some("true")] { (path) } }
                    }
                }
            }
        }
    }

    /// Shows the last rollback, with the button that takes it back.
    fn last_action(&self) -> Markup {
        let (Some(last), Some(workspace)) = (&self.last, &self.workspace) else {
            return html! { div .last #last-action {} };
        };
        let time: jiff::Timestamp = last.time.parse().unwrap_or_default();
        html! {
            div .last #last-action {
                span { (text::describe_action(last.action)) " " (relative_time(time, self.now)) }
                (take_back_button(workspace, last.action))
            }
        }
    }
}

/// Renders the button that reverses the last rollback.
pub(super) fn take_back_button(workspace: &str, action: Action) -> Markup {
    let way = if action == Action::Undo { "redo" } else { "undo" };
    html! {
        button type="button" .small data-reverse=(way) data-workspace=(workspace) { "Take that back" }
    }
}

fn head(title: &str, is_chat: bool) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · takeback" }
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/assets/app.css";
            link rel="stylesheet" href="/assets/diff.css";
            link rel="stylesheet" href="/assets/charts.css";
            @if is_chat { link rel="stylesheet" href="/assets/chat.css"; }
            script type="module" src="/assets/app.js" {}
        }
    }
}

fn keys_help() -> Markup {
    let keys = [
        ("j  k", "next, previous turn"),
        ("Enter", "open the turn"),
        ("Space", "unfold the steps; select a file"),
        ("f d c e v", "files, diff, conversation, effects, coverage"),
        ("/", "search"),
        ("u", "undo this turn, keep my edits"),
        ("R", "roll back to before this turn"),
        ("U", "reverse the last rollback"),
        ("t", "absolute times"),
        ("Esc", "close; back to the list"),
    ];
    html! {
        h2 #keys-title { "Keys" }
        dl .keys { @for (key, meaning) in keys { dt { kbd { (key) } } dd { (meaning) } } }
        form method="dialog" { button autofocus { "Close" } }
    }
}

/// Renders a page that shows a problem and belongs to no workspace.
pub(super) fn bare_page(title: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, false))
            body .bare { main #main { (main) } }
        }
    }
}

/// Renders two panes: a list, and the details of one entry. `which` names the pane that a narrow
/// window shows.
pub(super) fn panes(which: &str, list: &Markup, detail: &Markup) -> Markup {
    html! {
        div class={ "panes " (which) } {
            section .pane-list aria-label="Timeline" data-pane="list" { (list) }
            section .pane-detail aria-label="Details" data-pane="detail" tabindex="-1" { (detail) }
        }
    }
}

/// Puts the content of a page into a single column.
pub(super) fn column(content: &Markup) -> Markup {
    html! { div .column { (content) } }
}

/// Renders the parts of a text between backticks as code.
pub(super) fn with_code(words: &str) -> Markup {
    html! {
        @for (index, part) in words.split('`').enumerate() {
            @if index % 2 == 1 { code { (text::visible(part)) } } @else { (text::visible(part)) }
        }
    }
}

/// Renders a problem: the message, its causes, and what to do next.
pub(super) fn problem_box(problem: &Problem) -> Markup {
    html! {
        div .problem role="alert" {
            h1 { span .sign aria-hidden="true" { "⚠" } (text::one_line(&sentence(&problem.title))) }
            @if !problem.causes.is_empty() {
                ul { @for cause in &problem.causes { li { (text::visible(cause)) } } }
            }
            @if let Some(hint) = &problem.hint { p { (text::visible(&sentence(hint))) "." } }
            @if problem.status == 404 {
                p { a href="/" { "All workspaces" } }
            } @else {
                p .faint { "Nothing was changed." }
            }
        }
    }
}

/// Capitalizes the first letter of the text.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}

/// Renders a relative time. The absolute time is shown when the pointer hovers over it, and is
/// available to scripts.
pub(super) fn relative_time(moment: jiff::Timestamp, now: jiff::Timestamp) -> Markup {
    let words = match text::relative(moment, now).as_str() {
        "now" => "just now".to_owned(),
        short => format!("{short} ago"),
    };
    html! { time datetime=(moment) data-long="" { (words) } }
}

/// Renders a note that stands out: a warning, or an explanation.
pub(super) fn note(kind: &str, content: &Markup) -> Markup {
    html! {
        div class={ "note " (kind) } {
            @if kind == "warning" { span .sign aria-hidden="true" { "⚠" } }
            div { (content) }
        }
    }
}
