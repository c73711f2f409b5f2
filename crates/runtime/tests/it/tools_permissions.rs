//! Files that the user may not read or write. Permissions do not apply to root, so under root,
//! these tests run themselves again as another user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::tools_support::Workbench;

/// Runs the body as a user to whom file permissions apply.
fn as_bound_user(test: &str, body: impl FnOnce()) {
    if !rustix::process::geteuid().is_root() {
        return body();
    }
    let own = fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        // The program is passed as an open file, because another user may not have access to it.
        .args(["/proc/self/fd/0", "--exact", &format!("tools_permissions::{test}")])
        .stdin(own)
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_the_user_may_not_read_is_an_error() {
    as_bound_user("a_file_that_the_user_may_not_read_is_an_error", || {
        let mut bench = Workbench::new();
        bench.put("secret", "x");
        bench.put("closed/file", "x");
        bench.put("open", "x");
        chmod(&bench.at("secret"), 0o000);
        chmod(&bench.at("closed"), 0o000);
        let read = bench.fail("read_file", &json!({ "path": "secret" }));
        assert_eq!(read, "cannot read secret: Permission denied");
        let read = bench.fail("read_file", &json!({ "path": "closed/file" }));
        assert_eq!(read, "cannot read closed/file: Permission denied");
        let write = json!({ "path": "secret", "content": "y" });
        assert!(bench.fail("write_file", &write).contains("Permission denied"));
        let found = bench.ok("search_files", &json!({ "pattern": "x" }));
        assert!(found.starts_with("open\n1: x\n"), "{found}");
        assert!(found.contains("[cannot search secret: Permission denied]"), "{found}");
        let listed = bench.ok("list_files", &json!({}));
        assert!(listed.starts_with("closed/\nopen\nsecret\n["), "{listed}");
        let said = bench.fail("list_files", &json!({ "path": "closed" }));
        assert_eq!(said, "cannot list closed: Permission denied");
        chmod(&bench.at("closed"), 0o700);
    });
}

#[test]
fn writing_to_a_read_only_directory_is_an_error_and_changes_nothing() {
    as_bound_user("writing_to_a_read_only_directory_is_an_error_and_changes_nothing", || {
        let mut bench = Workbench::new();
        bench.put("fixed/file", "one");
        bench.ok("read_file", &json!({ "path": "fixed/file" }));
        chmod(&bench.at("fixed"), 0o500);
        for path in ["fixed/file", "fixed/new", "fixed/deep/er/new"] {
            let said = bench.fail("write_file", &json!({ "path": path, "content": "x" }));
            assert!(said.starts_with("nothing was written: cannot write fixed/"), "{said}");
            assert!(said.ends_with(": Permission denied"), "{said}");
        }
        assert_eq!(bench.list(), ["fixed/file"]);
        assert_eq!(bench.get("fixed/file"), "one");
        // A file that the user cannot write to is replaced instead; write access to its directory
        // is enough for that.
        chmod(&bench.at("fixed"), 0o700);
        chmod(&bench.at("fixed/file"), 0o400);
        bench.ok("write_file", &json!({ "path": "fixed/file", "content": "two" }));
        assert_eq!(bench.get("fixed/file"), "two");
    });
}
