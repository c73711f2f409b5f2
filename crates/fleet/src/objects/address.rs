//! Addresses of object storage: `s3://bucket/prefix` and `file:///directory`.

use std::path::PathBuf;

/// The place where a fleet keeps its checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectsAddress {
    /// A directory, for example of a network file system.
    Directory(PathBuf),
    /// A bucket of a server that speaks the S3 protocol. The prefix is empty or ends with a slash.
    S3 { bucket: String, prefix: String },
}

impl ObjectsAddress {
    /// Parses an address. The error explains the problem.
    pub(crate) fn parse(text: &str) -> Result<ObjectsAddress, String> {
        if let Some(path) = text.strip_prefix("file://") {
            return match path.starts_with('/') && path.len() > 1 {
                true => Ok(ObjectsAddress::Directory(PathBuf::from(path))),
                false => Err("the address of a directory begins with file:///".to_owned()),
            };
        }
        let other = ["gs://", "az://"].into_iter().find(|scheme| text.starts_with(scheme));
        if let Some(scheme) = other {
            return Err(format!(
                "addresses with {scheme} are not supported yet; use s3:// or file:///"
            ));
        }
        let Some(rest) = text.strip_prefix("s3://") else {
            return Err("the address of object storage begins with s3:// or file:///".to_owned());
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        };
        let has_bad_part = |part: &str| part.is_empty() || part == "." || part == "..";
        if bucket.len() < 3 || bucket.len() > 63 || !is_plain(bucket) || bucket.contains("..") {
            return Err("the address names no valid bucket".to_owned());
        }
        if !is_plain(prefix) || (!prefix.is_empty() && prefix.split('/').any(has_bad_part)) {
            return Err(
                "the prefix in the address may contain only letters, digits, '-', '_' and '.'"
                    .to_owned(),
            );
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(ObjectsAddress::S3 { bucket: bucket.to_owned(), prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused_with_a_reason() {
        let s3 = |bucket: &str, prefix: &str| ObjectsAddress::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (text, expected) in [
            ("s3://bucket", s3("bucket", "")),
            ("s3://bucket/", s3("bucket", "")),
            ("s3://my.bucket/a/b/", s3("my.bucket", "a/b/")),
            ("file:///srv/fleet", ObjectsAddress::Directory("/srv/fleet".into())),
        ] {
            assert_eq!(ObjectsAddress::parse(text), Ok(expected), "{text}");
        }
        for (text, reason) in [
            ("gs://bucket", "not supported yet"),
            ("az://bucket", "not supported yet"),
            ("bucket", "begins with s3://"),
            ("http://bucket", "begins with s3://"),
            ("s3://", "no valid bucket"),
            ("s3://a b c", "no valid bucket"),
            ("s3://bucket/a//b", "may contain only"),
            ("s3://bucket/../b", "may contain only"),
            ("s3://bucket/ü", "may contain only"),
            ("file://host/path", "file:///"),
            ("file:///", "file:///"),
        ] {
            let problem = ObjectsAddress::parse(text).unwrap_err();
            assert!(problem.contains(reason), "{text}: {problem}");
        }
    }
}
