//! Messages: prompts, answers in Markdown, and tool calls that can be unfolded.

use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};
use takeback_ledger::MessageRecord;
use takeback_ledger::render::{Piece, PieceKind, message_marks, message_pieces};

use crate::text;
use crate::view::turn::TurnView;

/// The longest text that is shown in full, in bytes.
const MAX_TEXT: usize = 200_000;

/// Renders the messages of one turn.
pub(super) fn render_turn(
    messages: Option<&[MessageRecord]>,
    turn: &TurnView,
    zone: &TimeZone,
) -> Markup {
    match messages {
        Some(messages) if !messages.is_empty() => html! {
            div .messages { @for message in messages { (render_message(message, zone)) } }
        },
        _ => html! {
            div .empty {
                h2 { "No conversation" }
                @if turn.checkpoint.session.is_some() {
                    p { "The ledger has no messages of this turn. Hooks report prompts; answers come from the agent’s own log." }
                } @else {
                    p { "This checkpoint belongs to no turn." }
                }
            }
        },
    }
}

/// Renders one message.
pub(super) fn render_message(message: &MessageRecord, zone: &TimeZone) -> Markup {
    let marks = message_marks(message);
    let role = message.role.as_str();
    let is_known = matches!(role, "user" | "assistant" | "tool" | "system");
    let class = if is_known { role } else { "other" };
    html! {
        article .message .{ "role-" (class) } .back[message.undone] #{ "m" (message.seq) } {
            header {
                span .role { (text::one_line(role)) }
                @if let Some(time) = message.timestamp {
                    @let moment = text::timestamp(time);
                    time datetime=(moment) title=(text::absolute(moment, zone)) { (text::clock(moment, zone)) }
                }
                @for mark in marks { span .badge { @if mark == "undone" { "taken back" } @else { (mark) } } }
                a .anchor href={ "#m" (message.seq) } aria-label={ "Link to message " (message.seq) } { "#" (message.seq) }
            }
            @for piece in message_pieces(message) { (render_piece(&piece, role)) }
        }
    }
}

fn render_piece(piece: &Piece, role: &str) -> Markup {
    let shown = shorten(&piece.text);
    let plain = || html! { pre { code { (text::visible(shown)) } } };
    match &piece.kind {
        PieceKind::Text if role == "assistant" => html! { div .prose { (markdown(shown)) } },
        PieceKind::Text => html! { div .prose .plain { (text::visible(shown)) } },
        PieceKind::Reasoning => {
            html! { details .tool { summary { "Reasoning" } div .prose .plain { (text::visible(shown)) } } }
        }
        PieceKind::Call(name) => html! {
            details .tool .call { summary { span .tool-name { (text::one_line(name)) } " " code { (text::shorten(&text::one_line(&text::describe_input(&piece.text)), 120)) } } (plain()) }
        },
        PieceKind::Result(name) => html! {
            details .tool .result { summary { "Result" @if !name.is_empty() { " of " (text::shorten(&text::one_line(name), 40)) } " " span .faint { "· " (text::count(piece.text.lines().count() as u64, "line")) } } (plain()) }
        },
        PieceKind::Data => html! { details .tool { summary { "Data" } (plain()) } },
    }
}

fn shorten(text: &str) -> &str {
    match text.char_indices().find(|(at, _)| *at >= MAX_TEXT) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Renders Markdown. HTML in it is shown as text, images become links, and only links to web pages
/// and mail addresses are kept.
pub(crate) fn markdown(text: &str) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let text = text::visible(text);
    let mut unsafe_links = 0_usize;
    let events = Parser::new_ext(&text, options).flat_map(move |event| match event {
        Event::Html(html) | Event::InlineHtml(html) => vec![Event::Text(html)],
        Event::Start(Tag::HtmlBlock) => vec![Event::Start(Tag::Paragraph)],
        Event::End(TagEnd::HtmlBlock) => vec![Event::End(TagEnd::Paragraph)],
        Event::Start(Tag::Image { dest_url, .. }) => {
            vec![Event::Text(CowStr::from(format!("[image: {dest_url}] ")))]
        }
        Event::End(TagEnd::Image) => Vec::new(),
        Event::Start(Tag::Link { link_type, dest_url, .. }) => {
            if is_safe_link(link_type, &dest_url) {
                let (title, id) = (CowStr::from(""), CowStr::from(""));
                vec![Event::Start(Tag::Link { link_type, dest_url, title, id })]
            } else {
                unsafe_links += 1;
                vec![Event::Start(Tag::Emphasis)]
            }
        }
        Event::End(TagEnd::Link) if unsafe_links > 0 => {
            unsafe_links -= 1;
            vec![Event::End(TagEnd::Emphasis)]
        }
        // A heading in an answer must not look like a heading of the page.
        Event::Start(Tag::Heading { .. }) => {
            vec![Event::Start(Tag::Paragraph), Event::Start(Tag::Strong)]
        }
        Event::End(TagEnd::Heading(_)) => {
            vec![Event::End(TagEnd::Strong), Event::End(TagEnd::Paragraph)]
        }
        other => vec![other],
    });
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    PreEscaped(html)
}

fn is_safe_link(link_type: LinkType, address: &str) -> bool {
    let address = address.to_ascii_lowercase();
    link_type == LinkType::Email
        || ["http://", "https://", "mailto:"].iter().any(|scheme| address.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_rendered_as_html() {
        let html =
            markdown("# Done\n\nI *changed* `a.rs`:\n\n```rust\nfn main() {}\n```").into_string();
        assert!(html.contains("<strong>Done</strong>"), "{html}");
        assert!(html.contains("<em>changed</em> <code>a.rs</code>"), "{html}");
        assert!(html.contains("fn main() {}"), "{html}");
    }

    #[test]
    fn hostile_markdown_stays_text() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>)",
            "![x](http://evil.example/pixel.png)",
            "<div onclick=x>\n\nhello",
            "```\"><script>\n</script>\n```",
            "[x](http://a\" onmouseover=\"alert(1))",
            "<http://a.example/\"onmouseover=alert(1)>",
        ] {
            let html = markdown(text).into_string().to_lowercase();
            assert!(!html.contains("<script") && !html.contains("<img"), "{text}: {html}");
            assert!(!html.contains("<div"), "{text}: {html}");
            // No tag contains an event handler or a dangerous address.
            let tags = html.split('<').skip(1).map(|tag| tag.split('>').next().unwrap());
            for tag in tags {
                assert!(!tag.contains(" onm") && !tag.contains("\"onm"), "{text}: {html}");
                assert!(!tag.contains("javascript:") && !tag.contains("data:"), "{text}: {html}");
            }
        }
    }

    #[test]
    fn each_kind_of_link_is_closed_with_its_own_tag() {
        let html = markdown("[a](javascript:x) [b](https://b.example/)").into_string();
        assert_eq!(html.matches("<em>").count(), html.matches("</em>").count());
        assert_eq!(html.matches("<a ").count(), html.matches("</a>").count());
        assert!(html.contains("<a href=\"https://b.example/\">b</a>"), "{html}");
    }
}
