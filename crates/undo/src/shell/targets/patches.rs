//! `apply_patch`, a program that agents provide. Its patch names the files that it changes.

use super::value::Value;
use super::{Change, Finder, Stream};
use crate::patch::{contains_patch, is_patch_program, list_patched_files};
use crate::shell::read_only::programs::is_in_usual_place;

impl Finder<'_> {
    /// Visits a command that applies a patch from its argument or from standard input. Returns
    /// false for other commands, and if the patch is unknown.
    pub(super) fn visit_apply_patch(
        &mut self,
        name: &str,
        args: &[Vec<Value>],
        text: &str,
        input: &Stream,
    ) -> bool {
        if !is_patch_program(name) {
            return false;
        }
        let patch = match args {
            [] => input.text.as_deref(),
            [group] => match group.as_slice() {
                [value] => value.text(),
                _ => None,
            },
            _ => None,
        };
        let Some(patch) = patch.filter(|patch| contains_patch(patch)) else { return false };
        self.is_bounded &= is_in_usual_place(name);
        for file in list_patched_files(patch) {
            let file = Value::Text(file.to_string_lossy().into_owned());
            self.add_value(&file, Change::Overwrites, text);
        }
        true
    }
}
