//! Object storage servers for the tests of a fleet's checkpoints.

use crate::agents::{AgentCache, FetchError};
use crate::clients::install_from_pypi;

/// The version of moto, a server that speaks the S3 protocol.
const MOTO: &str = "5.2.5";

/// The version of gcp-storage-emulator, an emulator of Google Cloud Storage.
const GOOGLE: &str = "2026.7.19";

/// The version of Azurite, an emulator of Azure Blob Storage. Later versions need a newer Node.
const AZURITE: &str = "3.35.0";

/// Installs the servers that are missing. Tests are skipped if their server cannot be installed.
pub(crate) fn fetch_servers() {
    install_from_pypi("moto", MOTO, &[&format!("moto[server,s3]=={MOTO}")]);
    let package = format!("gcp-storage-emulator=={GOOGLE}");
    install_from_pypi("gcp-storage-emulator", GOOGLE, &[&package]);
    let azurite = AgentCache::for_tools()
        .map_err(FetchError::Failed)
        .and_then(|cache| cache.install_package("azurite", "azurite", AZURITE));
    match azurite {
        Ok(_) => {}
        Err(FetchError::Unavailable(reason)) => eprintln!("azurite: {reason}"),
        Err(FetchError::Failed(failure)) => eprintln!("azurite: {failure}"),
    }
}
