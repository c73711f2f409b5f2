//! A server of Google Cloud Storage: gcp-storage-emulator from PyPI. It knows neither tokens nor
//! conditions nor pages; `google_server.py` adds them as Google documents them.

use std::process::Command;

use takeback_fleet::{ObjectsError, Provider};

use super::{BUCKET, StorageServer, access_to, find_tool};

/// The token that the server accepts.
const TOKEN: &str = "good";

pub(super) fn start() -> Option<StorageServer> {
    let python = find_tool("gcp-storage-emulator", "bin/python")?;
    let mut server = StorageServer::run(Provider::Google, &[TOKEN], |port| {
        let mut command = Command::new(python);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/storage/google_server.py");
        command.args([script, &port.to_string(), BUCKET, TOKEN]);
        command
    });
    let bad = access_to(Provider::Google, server.port, &["bad"]);
    let none = access_to(Provider::Google, server.port, &[]);
    let is_refused = |error: &ObjectsError| matches!(error, ObjectsError::Credentials { .. });
    server.refused_access = vec![(bad, is_refused), (none, is_refused)];
    Some(server)
}

pub(super) fn create_object(server: &StorageServer, key: &str) {
    let path = format!("/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={key}");
    server.ask("POST", &path, &[&format!("Authorization: Bearer {TOKEN}")], "");
}
