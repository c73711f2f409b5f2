//! The signature of takeback's own files, and the seal that shows whether the user changed a file.

use sha2::{Digest, Sha256};
use takeback_base::hex;

/// The words that mark a file as takeback's, in every version. The seal follows them.
///
/// Never change these words: files that older versions wrote would no longer be recognized.
const SIGNATURE: &str = "Installed by takeback ";

/// The placeholder for a seal that has not been computed yet.
const BLANK_SEAL: &str = "000000000000";

/// Returns the line that marks a file as takeback's, with a blank seal.
pub(super) fn unsealed_signature(agent: &str) -> String {
    format!("{SIGNATURE}{BLANK_SEAL}: `takeback uninstall {agent}` removes it.")
}

/// The owner of a file, according to its signature and seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// The file has not changed since takeback wrote it.
    Takeback,
    /// Takeback wrote the file, and the user has changed it since.
    Both,
    /// The file was not written by takeback.
    User,
}

/// Fills in the seal, which is a hash of the text in which the seal is still blank.
pub(crate) fn seal_text(text: &str) -> String {
    text.replacen(BLANK_SEAL, &compute_seal(text), 1)
}

fn compute_seal(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    hex::encode(&digest[..BLANK_SEAL.len() / 2])
}

/// Removes the line with the signature.
pub(crate) fn without_signature(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.contains(SIGNATURE)).collect()
}

/// Determines the owner of a file from its text.
pub(crate) fn file_owner(text: &str) -> FileOwner {
    let Some(at) = text.find(SIGNATURE).map(|at| at + SIGNATURE.len()) else {
        return FileOwner::User;
    };
    match text.get(at..at + BLANK_SEAL.len()) {
        Some(seal) if compute_seal(&text.replacen(seal, BLANK_SEAL, 1)) == seal => {
            FileOwner::Takeback
        }
        _ => FileOwner::Both,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::{Part, Program};
    use crate::{AGENTS, Agent};

    fn own_files(agent: &Agent) -> Vec<String> {
        let program = Program::of_user(vec!["/usr/bin/takeback".into()]);
        let parts = agent.wiring.map(|wiring| wiring.parts).unwrap_or_default().iter();
        let content = parts.filter_map(|part| match part {
            Part::OwnFile(own) => Some((own.content)(&program)),
            Part::Hooks(_) | Part::Servers(_) => None,
        });
        content.collect()
    }

    #[test]
    fn a_file_belongs_to_takeback_until_the_user_changes_it() {
        let texts: Vec<String> = AGENTS.iter().flat_map(own_files).collect();
        assert!(texts.len() > 10);
        for text in texts {
            let sealed = seal_text(&text);
            assert_eq!(file_owner(&sealed), FileOwner::Takeback);
            assert_eq!(file_owner(&format!("{sealed} ")), FileOwner::Both);
            let moved = sealed.replace("usr", "opt");
            assert!(moved == sealed || file_owner(&moved) == FileOwner::Both);
            assert_eq!(file_owner(&without_signature(&sealed)), FileOwner::User);
            assert!(!sealed.contains(BLANK_SEAL) && !sealed.contains("@TAKEBACK@"), "{sealed}");
        }
    }
}
