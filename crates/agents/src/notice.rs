//! What a model reads after files went back.

use std::fmt::Write;

use takeback_undo::Notice;

/// At most so many files, and so many effects, are named.
const NAMED: usize = 20;

/// The text for a model; `None` if there is nothing to tell.
pub fn notice_text(notices: &[Notice]) -> Option<String> {
    let mut text = String::new();
    for notice in notices {
        let count = notice.files.len() + notice.more;
        if count == 0 {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let (which, them) = if count == 1 { ("this file", "it") } else { ("these files", "them") };
        let workspace = notice.workspace.display();
        line(
            &mut text,
            &format!(
                "takeback changed {which} back in {workspace}. What you know of {them} is out of \
                 date: read {them} again before editing."
            ),
        );
        for file in notice.files.iter().take(NAMED) {
            let gone = if file.is_gone { " (removed)" } else { "" };
            line(&mut text, &format!("- {}{gone}", file.path));
        }
        let more = count - notice.files.len().min(NAMED);
        if more > 0 {
            line(&mut text, &format!("- and {more} more"));
        }
        if !notice.effects.is_empty() {
            line(&mut text, "Not reversed, because no rollback can:");
        }
        for effect in notice.effects.iter().take(NAMED) {
            line(&mut text, &format!("- {}: {}", effect.kind, effect.command));
        }
        let more = notice.effects.len().saturating_sub(NAMED);
        if more > 0 {
            line(&mut text, &format!("- and {more} more"));
        }
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

/// One line, whatever is in it.
fn line(text: &mut String, line: &str) {
    for character in line.chars() {
        if character.is_control() {
            write!(text, "{}", character.escape_default()).expect("a text takes everything");
        } else {
            text.push(character);
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use takeback_undo::{EffectView, Notice, NoticeFile};

    use super::*;

    fn notice(files: &[(&str, bool)], more: usize, effects: &[(&str, &str)]) -> Notice {
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
        }
    }

    #[test]
    fn a_notice_says_what_changed_back_and_what_did_not() {
        let effects = [("database", "psql shop -c 'drop table carts'")];
        let told = notice(&[("src/main.rs", false), ("new\n.txt", true)], 3, &effects);
        assert_eq!(
            notice_text(&[told]).unwrap(),
            "takeback changed these files back in /home/me/shop. What you know of them is out of \
             date: read them again before editing.\n\
             - src/main.rs\n\
             - new\\n.txt (removed)\n\
             - and 3 more\n\
             Not reversed, because no rollback can:\n\
             - database: psql shop -c 'drop table carts'"
        );
    }

    #[test]
    fn many_files_are_counted() {
        let names: Vec<String> = (0..30).map(|number| format!("{number}")).collect();
        let files: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
        let text = notice_text(&[notice(&files, 5, &[])]).unwrap();
        assert!(text.ends_with("- 19\n- and 15 more"), "{text}");
    }

    #[test]
    fn two_rollbacks_are_told_together_and_nothing_is_nothing() {
        assert_eq!(notice_text(&[]), None);
        assert_eq!(notice_text(&[notice(&[], 0, &[("network", "curl x")])]), None);
        let text = notice_text(&[notice(&[("a", false)], 0, &[]), notice(&[("b", true)], 0, &[])]);
        assert_eq!(text.unwrap().matches("takeback changed this file back").count(), 2);
    }
}
