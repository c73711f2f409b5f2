//! Determines when `find` only reads. With `-delete` or `-fprint`, for example, it changes files.

use crate::shell::syntax::Arg;

/// Returns true if `find` only prints. The commands that it runs with `-exec` are visited
/// separately.
pub(super) fn is_read_only(args: &[Arg]) -> bool {
    #[rustfmt::skip]
    const TESTS: &[&str] = &[
        "-a", "-and", "-amin", "-anewer", "-atime", "-cmin", "-cnewer", "-ctime", "-daystart",
        "-depth", "-empty", "-executable", "-false", "-follow", "-fstype", "-gid", "-group",
        "-H", "-iname", "-inum", "-ipath", "-iregex", "-iwholename", "-L", "-links", "-lname",
        "-ls", "-maxdepth", "-mindepth", "-mmin", "-mount", "-mtime", "-name", "-newer", "-nogroup",
        "-not", "-nouser", "-o", "-or", "-P", "-path", "-perm", "-print", "-print0", "-printf",
        "-prune", "-quit", "-readable", "-regex", "-regextype", "-samefile", "-size", "-true",
        "-type", "-uid", "-used", "-user", "-wholename", "-writable", "-xdev", "-xtype",
    ];
    args.iter().all(|arg| match arg.known() {
        Some(text) if text.starts_with('-') && text.len() > 1 => {
            TESTS.contains(&text)
                || text[1..].starts_with(|c: char| c.is_ascii_digit())
                || (text.len() == 8 && text.starts_with("-newer"))
        }
        _ => arg.is_operand(),
    })
}
