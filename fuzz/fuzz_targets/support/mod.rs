//! The directory in which a target keeps its files.

use std::path::PathBuf;
use std::sync::LazyLock;

/// A directory that belongs to this process alone. `cargo xtask fuzz` removes it.
pub static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("takeback-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
    path.canonicalize().expect("it was just created")
});
