//! Addresses of object storage: `s3://bucket/prefix`, `gs://bucket/prefix`,
//! `az://container/prefix` and `file:///directory`.

use std::path::PathBuf;

use super::access::Provider;

/// The schemes of addresses, for each kind of server.
const SCHEMES: [(&str, Provider); 3] =
    [("s3://", Provider::S3), ("gs://", Provider::Google), ("az://", Provider::Azure)];

/// The place where a fleet keeps its checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectsAddress {
    /// A directory, for example on a network file system.
    Directory(PathBuf),
    /// A bucket on a server. The prefix is empty or ends with a slash.
    Server { provider: Provider, bucket: String, prefix: String },
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
        let strip = |(scheme, provider)| Some((text.strip_prefix(scheme)?, provider));
        let Some((rest, provider)) = SCHEMES.into_iter().find_map(strip) else {
            return Err(
                "the address of object storage begins with s3://, gs://, az:// or file:///"
                    .to_owned(),
            );
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        };
        let has_bad_part = |part: &str| part.is_empty() || part == "." || part == "..";
        // Google allows longer names if they consist of parts that are separated by dots.
        let longest = if provider == Provider::Google { 222 } else { 63 };
        let is_bad_length = bucket.len() < 3 || bucket.len() > longest;
        if is_bad_length || !is_plain(bucket) || bucket.contains("..") {
            return Err("the address names no valid bucket".to_owned());
        }
        if !is_plain(prefix) || (!prefix.is_empty() && prefix.split('/').any(has_bad_part)) {
            return Err(
                "the prefix in the address may contain only letters, digits, '-', '_' and '.'"
                    .to_owned(),
            );
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(ObjectsAddress::Server { provider, bucket: bucket.to_owned(), prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused_with_a_reason() {
        let at = |provider, bucket: &str, prefix: &str| ObjectsAddress::Server {
            provider,
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (text, expected) in [
            ("s3://bucket", at(Provider::S3, "bucket", "")),
            ("s3://bucket/", at(Provider::S3, "bucket", "")),
            ("s3://my.bucket/a/b/", at(Provider::S3, "my.bucket", "a/b/")),
            ("gs://bucket/a", at(Provider::Google, "bucket", "a/")),
            ("az://container/a", at(Provider::Azure, "container", "a/")),
            ("file:///srv/fleet", ObjectsAddress::Directory("/srv/fleet".into())),
        ] {
            assert_eq!(ObjectsAddress::parse(text), Ok(expected), "{text}");
        }
        for (text, reason) in [
            ("gs://", "no valid bucket"),
            ("az://a", "no valid bucket"),
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
