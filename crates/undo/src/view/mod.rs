//! The data that front ends show, in the terminal and in the browser: timelines, the lines of
//! changed files, and text for users.

mod changes;
mod diff;
mod highlight;
mod languages;
pub mod text;
mod timeline;

pub use self::changes::{list_changed_paths, list_files, list_others_changes, list_own_changes};
pub use self::diff::{
    DiffView, FileDiff, Image, Line, Part, Section, diff_file, image_type, is_image,
};
pub use self::highlight::Token;
pub use self::timeline::{
    Entry, RollbackEntry, Timeline, describe_rollback, read_timeline, read_timeline_at,
};
