//! A server of the S3 protocol for the tests of a fleet's checkpoints: moto, from PyPI.

use std::path::PathBuf;

use crate::clients::install_from_pypi;

/// The version of moto.
const MOTO: &str = "5.2.5";

/// Installs moto, unless it is installed. Without it, the tests that need it are skipped. Returns
/// the directory of its environment.
pub(crate) fn fetch_server() -> Option<PathBuf> {
    install_from_pypi("moto", MOTO, &[&format!("moto[server,s3]=={MOTO}")])
}
