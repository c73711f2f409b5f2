//! Stores the known files as a list, because a path that is not UTF-8 cannot be a key in a JSON
//! object.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tools::{KnownFile, KnownFiles};

pub(super) fn serialize<S: Serializer>(
    files: &KnownFiles,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let file = |(path, digest): (&std::path::PathBuf, &Option<String>)| KnownFile {
        path: path.clone(),
        digest: digest.clone(),
    };
    files.iter().map(file).collect::<Vec<_>>().serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<KnownFiles, D::Error> {
    let files = Vec::<KnownFile>::deserialize(deserializer)?;
    Ok(files.into_iter().map(|file| (file.path, file.digest)).collect())
}
