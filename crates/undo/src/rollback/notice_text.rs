//! The text of notices, which tell a model that takeback restored files or took back a part of the
//! conversation.

use std::path::Path;

use takeback_base::text::{disarm, push_line};

use super::{Notice, TakenBack};

/// The maximum number of files, and of commands, that a notice lists. The rest are only counted.
const LISTED: usize = 20;

/// Composes the text of notices for a model. Returns `None` if there is nothing to report.
pub fn notice_text(notices: &[Notice]) -> Option<String> {
    let mut text = String::new();
    for notice in notices {
        let has_files = !notice.files.is_empty() || notice.more > 0;
        let has_more =
            notice.taken_back.is_some() || !notice.left.is_empty() || notice.forked_from.is_some();
        if !has_files && !has_more && notice.effects.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        if has_files {
            push_files(&mut text, notice);
        } else if let Some(from) = &notice.forked_from {
            push_fork(&mut text, &notice.workspace, from);
        } else if !notice.is_rewound {
            push_line(
                &mut text,
                "A part of this conversation was taken back; no file was changed.",
            );
        }
        push_taken_back(&mut text, notice);
        push_left(&mut text, notice);
        push_effects(&mut text, notice);
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

/// Tells the model that the conversation continues in another directory.
fn push_fork(text: &mut String, workspace: &Path, from: &Path) {
    let (to, from) = (workspace.display(), from.display());
    push_line(
        text,
        &format!(
            "This conversation is a fork: it now works in {to}, which has the same files. Paths in \
             {from} that it mentions stand for paths in {to}. Leave {from} alone."
        ),
    );
}

/// Adds the files that were restored.
fn push_files(text: &mut String, notice: &Notice) {
    let count = notice.files.len() + notice.more;
    let (files, them) = if count == 1 { ("this file", "it") } else { ("these files", "them") };
    let workspace = notice.workspace.display();
    push_line(
        text,
        &format!(
            "takeback restored {files} in {workspace} to an earlier state. What you know about \
             {them} is out of date: read {files} again before editing {them}."
        ),
    );
    for file in notice.files.iter().take(LISTED) {
        let deleted = if file.is_gone { " (deleted)" } else { "" };
        push_line(text, &format!("- {}{deleted}", file.path));
    }
    push_rest(text, count - notice.files.len().min(LISTED));
}

/// Adds the prompt that was taken back. The agent's own conversation still contains it.
fn push_taken_back(text: &mut String, notice: &Notice) {
    let Some(TakenBack { prompt, later }) = &notice.taken_back else { return };
    let later = match later {
        0 => String::new(),
        1 => " (and 1 later one)".to_owned(),
        count => format!(" (and {count} later ones)"),
    };
    push_line(
        text,
        &format!(
            "The user took back the prompt “{}”{later} with all you did for it. Treat these \
             messages as never sent: do not redo, continue or mention that work unless asked again.",
            disarm(prompt)
        ),
    );
}

/// Adds the files that were left unchanged.
fn push_left(text: &mut String, notice: &Notice) {
    if !notice.left.is_empty() {
        let workspace = notice.workspace.display();
        push_line(text, &format!("These files in {workspace} may differ from what you know:"));
    }
    for path in notice.left.iter().take(LISTED) {
        push_line(text, &format!("- {path}"));
    }
    push_rest(text, notice.left.len().saturating_sub(LISTED));
}

/// Adds the effects that remain.
fn push_effects(text: &mut String, notice: &Notice) {
    if !notice.effects.is_empty() {
        let kept = "The effects of these commands remain, because no rollback reverses them:";
        push_line(text, kept);
    }
    for effect in notice.effects.iter().take(LISTED) {
        push_line(text, &format!("- {}: {}", effect.kind, effect.command));
    }
    push_rest(text, notice.effects.len().saturating_sub(LISTED));
}

/// Adds a line with the number of entries that were left out of a list.
fn push_rest(text: &mut String, count: usize) {
    if count > 0 {
        push_line(text, &format!("- and {count} more"));
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::NoticeFile;
    use super::*;
    use crate::history::EffectView;

    fn notice_of(files: &[(&str, bool)], more: usize, effects: &[(&str, &str)]) -> Notice {
        let file = |(path, is_gone): &(&str, bool)| NoticeFile {
            path: takeback_tree::RelPath::new(*path).unwrap(),
            is_gone: *is_gone,
        };
        let effect = |(kind, command): &(&str, &str)| EffectView {
            kind: (*kind).into(),
            command: (*command).into(),
        };
        Notice {
            workspace: PathBuf::from("/home/me/shop"),
            files: files.iter().map(file).collect(),
            more,
            effects: effects.iter().map(effect).collect(),
            ..Notice::default()
        }
    }

    #[test]
    fn a_notice_lists_restored_files_and_remaining_effects() {
        let effects = [("database", "psql shop -c 'drop table carts'")];
        let notice = notice_of(&[("src/main.rs", false), ("new\n.txt", true)], 3, &effects);
        assert_eq!(
            notice_text(&[notice]).unwrap(),
            "takeback restored these files in /home/me/shop to an earlier state. What you know \
             about them is out of date: read these files again before editing them.\n\
             - src/main.rs\n\
             - new\\n.txt (deleted)\n\
             - and 3 more\n\
             The effects of these commands remain, because no rollback reverses them:\n\
             - database: psql shop -c 'drop table carts'"
        );
    }

    #[test]
    fn a_notice_about_the_conversation_alone_lists_the_remaining_effects() {
        assert_eq!(
            notice_text(&[notice_of(&[], 0, &[("network", "curl x")])]).unwrap(),
            "A part of this conversation was taken back; no file was changed.\n\
             The effects of these commands remain, because no rollback reverses them:\n\
             - network: curl x"
        );
    }

    #[test]
    fn a_prompt_that_was_taken_back_is_quoted_on_one_line() {
        let taken_back = TakenBack { prompt: "tidy up\nthe imports".into(), later: 2 };
        let notice = Notice { taken_back: Some(taken_back), ..notice_of(&[("a", false)], 0, &[]) };
        let text = notice_text(&[notice]).unwrap();
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with("The user took back the prompt “tidy up\\nthe imports” (and 2 later"),
            "{text}"
        );
    }

    #[test]
    fn an_agent_whose_conversation_was_taken_back_learns_only_what_remains() {
        let left = vec![takeback_tree::RelPath::new("kept.txt").unwrap()];
        let notice = notice_of(&[], 0, &[("network", "curl x")]);
        assert_eq!(
            notice_text(&[Notice { is_rewound: true, left, ..notice }]).unwrap(),
            "These files in /home/me/shop may differ from what you know:\n\
             - kept.txt\n\
             The effects of these commands remain, because no rollback reverses them:\n\
             - network: curl x"
        );
    }

    #[test]
    fn a_fork_learns_that_it_works_in_another_directory() {
        let forked_from = Some(PathBuf::from("/home/me/old"));
        assert_eq!(
            notice_text(&[Notice { forked_from, ..notice_of(&[], 0, &[]) }]).unwrap(),
            "This conversation is a fork: it now works in /home/me/shop, which has the same files. \
             Paths in /home/me/old that it mentions stand for paths in /home/me/shop. Leave \
             /home/me/old alone."
        );
    }

    #[test]
    fn files_beyond_the_limit_are_counted() {
        let names: Vec<String> = (0..30).map(|number| format!("{number}")).collect();
        let files: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
        let text = notice_text(&[notice_of(&files, 5, &[])]).unwrap();
        assert!(text.ends_with("- 19\n- and 15 more"), "{text}");
    }

    #[test]
    fn two_notices_share_one_text_and_an_empty_one_is_left_out() {
        assert_eq!(notice_text(&[]), None);
        assert_eq!(notice_text(&[notice_of(&[], 0, &[])]), None);
        let text =
            notice_text(&[notice_of(&[("a", false)], 0, &[]), notice_of(&[("b", true)], 0, &[])]);
        assert_eq!(text.unwrap().matches("takeback restored this file in").count(), 2);
    }
}
