//! Containers, and the host paths that are mounted into them.

use super::Finder;
use super::arguments::split_operands;
use super::value::Value;

/// Programs that run containers.
pub(super) const CONTAINER_PROGRAMS: &[&str] =
    &["docker", "docker-compose", "nerdctl", "podman", "podman-compose"];

impl Finder<'_> {
    /// Adds the host paths of bind mounts, which a container may change.
    pub(super) fn name_bind_mounts(&mut self, args: &[Vec<Value>]) {
        let split = split_operands(args, "a c e h l m p u v w env mount name volume workdir");
        let volumes = split.options_named(&["-v", "--volume"]).into_iter().flatten();
        let mounts = split.options_named(&["--mount"]).into_iter().flatten();
        let sources: Vec<Value> =
            volumes.filter_map(volume_source).chain(mounts.filter_map(mount_source)).collect();
        sources.iter().for_each(|source| self.name_operand(source));
    }
}

/// Returns the host path in `host:container[:options]`.
fn volume_source(volume: &Value) -> Option<Value> {
    let mut fields = volume.start().split(':');
    let host = fields.next().unwrap_or_default();
    if fields.next().is_none() {
        // Without a colon, this is a path in the container, unless the unknown rest of the value
        // contains a colon.
        return (volume.text().is_none() && is_path(host)).then(|| volume.clone());
    }
    let is_read_only = fields.next().is_some_and(|options| options.split(',').any(|it| it == "ro"));
    (!is_read_only && is_path(host)).then(|| Value::Text(host.to_owned()))
}

/// Returns the host path in `type=bind,source=host,target=container`.
fn mount_source(mount: &Value) -> Option<Value> {
    let mut source = None;
    for field in mount.start().split(',') {
        match field.split_once('=').unwrap_or((field, "")) {
            ("source" | "src", host) if is_path(host) => source = Some(host),
            ("type", "volume" | "tmpfs" | "image") => return None,
            ("readonly" | "ro", "" | "true" | "1") => return None,
            _ => {}
        }
    }
    let source = source?;
    Some(match mount.text().is_none() && mount.start().ends_with(source) {
        true => Value::Prefix(source.to_owned()),
        false => Value::Text(source.to_owned()),
    })
}

/// Returns true for a host path. Other sources are names of volumes.
fn is_path(source: &str) -> bool {
    source.starts_with(['/', '.'])
}
