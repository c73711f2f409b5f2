//! stub
/// c
pub enum Conflicts<'a> {
    /// r
    Report,
    /// o
    Ours,
    /// t
    Theirs,
    /// m
    Markers {
        /// o
        ours: &'a str,
        /// t
        theirs: &'a str,
    },
}
/// m
pub enum Merged {
    /// c
    Clean(Vec<u8>),
    /// r
    Resolved(Vec<u8>, usize),
    /// c
    Conflict {
        /// c
        count: usize,
    },
}
/// m
pub fn merge(_base: &[u8], _ours: &[u8], _theirs: &[u8], _: Conflicts<'_>) -> Merged {
    Merged::Conflict { count: 1 }
}
