//! Effects that a checkpoint does not take back, by program and verb.

mod database;
mod network;
mod repository;

use super::EffectKind;
use super::syntax::Arg;

/// What one command does elsewhere than in files, if anything.
pub(super) fn of(base: &str, args: &[Arg]) -> Option<EffectKind> {
    let command = Invocation::new(base, args);
    // Asking for help or for the version does nothing, whatever else is said.
    if command.words.iter().any(|word| matches!(*word, "--help" | "--version"))
        && !command.words.contains(&"--")
    {
        return None;
    }
    repository::of(&command)
        .or_else(|| publishes(&command).then_some(EffectKind::Publish))
        .or_else(|| network::sends(&command).then_some(EffectKind::Network))
        .or_else(|| cloud(&command).then_some(EffectKind::Cloud))
        .or_else(|| database::changes(&command).then_some(EffectKind::Database))
}

/// A program and its words. What is only known later is an empty word.
struct Invocation<'a> {
    base: &'a str,
    words: Vec<&'a str>,
    /// The words that are not options.
    operands: Vec<&'a str>,
}

impl<'a> Invocation<'a> {
    fn new(base: &'a str, args: &'a [Arg]) -> Invocation<'a> {
        let words: Vec<&str> = args.iter().map(|arg| arg.known().unwrap_or_default()).collect();
        let operands = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
        Invocation { base, words, operands }
    }

    /// Whether the operands start with this verb, which may be several words.
    fn has_verb(&self, verb: &str) -> bool {
        let mut operands = self.operands.iter();
        verb.split(' ').all(|word| operands.next() == Some(&word))
    }

    fn has_any_verb(&self, verbs: &[&str]) -> bool {
        verbs.iter().any(|verb| self.has_verb(verb))
    }

    /// The operands after the options before the verb, of which these take a value.
    fn skipping(&self, valued: &[&str]) -> Invocation<'a> {
        let mut at = 0;
        while let Some(word) = self.words.get(at)
            && word.starts_with('-')
        {
            at += if valued.contains(word) { 2 } else { 1 };
        }
        let words = self.words.get(at..).unwrap_or_default().to_vec();
        let operands = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
        Invocation { base: self.base, words, operands }
    }

    /// The values of an option: `-x value`, `-xvalue`, `--long value`, `--long=value`.
    fn values(&self, names: &[&str]) -> Vec<&'a str> {
        let mut values = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            for name in names {
                let Some(rest) = word.strip_prefix(name) else { continue };
                let long = name.starts_with("--");
                match rest.strip_prefix('=') {
                    None if rest.is_empty() => {
                        values.push(self.words.get(at + 1).copied().unwrap_or_default());
                    }
                    Some(value) if long => values.push(value),
                    _ if !long => values.push(rest),
                    _ => {}
                }
            }
        }
        values
    }
}

/// Programs that publish with these verbs.
#[rustfmt::skip]
const PUBLISH: &[(&str, &[&str])] = &[
    ("bun", &["publish"]),
    ("cargo", &["publish", "yank", "owner"]),
    ("docker", &["push", "image push", "compose push", "manifest push"]),
    ("gem", &["push", "yank"]),
    ("helm", &["push"]),
    ("hg", &["push"]),
    ("jj", &["git push"]),
    ("lerna", &["publish"]),
    ("mvn", &["deploy"]),
    ("npm", &["publish", "unpublish", "deprecate", "dist-tag add", "dist-tag rm", "access"]),
    ("pnpm", &["publish"]),
    ("podman", &["push"]),
    ("poetry", &["publish"]),
    ("semantic-release", &[""]),
    ("svn", &["commit", "ci"]),
    ("twine", &["upload"]),
    ("uv", &["publish"]),
    ("yarn", &["publish", "npm publish"]),
];

/// What gh and glab do to a thing that others see.
#[rustfmt::skip]
const FORGE: &[&str] = &[
    "add", "approve", "archive", "cancel", "clone-and-push", "close", "comment", "create", "delete",
    "disable", "edit", "enable", "fork", "lock", "merge", "note", "pin", "ready", "rename",
        "reopen",
    "rerun", "review", "revoke", "run", "set", "sync", "transfer", "unarchive", "unlock", "unpin",
    "update", "update-branch", "upload",
];

fn publishes(command: &Invocation<'_>) -> bool {
    match command.base {
        "gh" | "glab" => forge(command),
        "scp" | "rsync" => command.operands.last().is_some_and(|last| is_remote(last)),
        "sftp" => command.operands.iter().any(|_| true),
        _ => {
            PUBLISH.iter().any(|(base, verbs)| *base == command.base && command.has_any_verb(verbs))
        }
    }
}

fn forge(command: &Invocation<'_>) -> bool {
    let command = command.skipping(&["-R", "--repo"]);
    match command.operands.as_slice() {
        ["api", ..] => {
            let methods = command.values(&["-X", "--method"]);
            let fields = &["-f", "-F", "--field", "--raw-field", "--input"];
            let sends = !command.values(fields).is_empty();
            match methods.last() {
                Some(method) => !method.eq_ignore_ascii_case("get"),
                None => sends,
            }
        }
        ["auth" | "config" | "alias" | "extension" | "completion" | "search", ..] => false,
        [_, verb, ..] => FORGE.contains(verb),
        _ => false,
    }
}

/// `host:path` or a URL: not a path with a colon in a later part.
fn is_remote(word: &str) -> bool {
    let host = word.split_once(':').map(|(host, _)| host);
    word.starts_with("rsync://") || host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
}

/// Programs that change containers, clusters or infrastructure with these verbs.
#[rustfmt::skip]
const CLOUD: &[(&str, &[&str])] = &[
    ("cdk", &["deploy", "destroy", "bootstrap"]),
    ("docker", DOCKER),
    ("docker-compose", COMPOSE),
    ("eksctl", &["create", "delete", "scale", "upgrade"]),
    ("fly", &["deploy", "launch", "scale", "secrets set", "apps destroy", "machine"]),
    ("flyctl", &["deploy", "launch", "scale", "secrets set", "apps destroy", "machine"]),
    ("firebase", &["deploy"]),
    ("helm", &["install", "upgrade", "uninstall", "delete", "rollback"]),
    ("heroku", &["create", "destroy", "restart", "run", "scale"]),
    ("kubectl", KUBECTL),
    ("k", KUBECTL),
    ("netlify", &["deploy"]),
    ("nomad", &["job run", "job stop", "run", "stop"]),
    ("oc", KUBECTL),
    ("podman", DOCKER),
    ("podman-compose", COMPOSE),
    ("pulumi", &["up", "update", "destroy", "refresh", "import", "stack rm", "cancel"]),
    ("railway", &["up", "down", "redeploy"]),
    ("sam", &["deploy", "delete"]),
    ("serverless", &["deploy", "remove"]),
    ("sls", &["deploy", "remove"]),
    ("terraform", TERRAFORM),
    ("terragrunt", TERRAFORM),
    ("tofu", TERRAFORM),
    ("vagrant", &["destroy", "up", "halt"]),
    ("wrangler", &["deploy", "publish", "delete", "secret put", "d1 execute"]),
];

#[rustfmt::skip]
const DOCKER: &[&str] = &[
    "builder prune", "commit", "compose up", "compose down", "compose rm",
    "compose stop", "compose start", "compose restart", "compose kill",
    "compose exec", "compose run", "compose create", "compose pause", "compose unpause",
    "container rm", "container stop", "container kill", "container prune", "container start",
    "container restart", "container exec", "container run", "container create", "cp", "create",
    "exec", "image rm", "image prune", "import", "kill", "network create", "network rm",
    "network prune", "network connect", "network disconnect", "pause", "prune", "rename",
    "restart", "rm", "rmi", "run", "stack deploy", "stack rm", "service create", "service update",
    "service rm", "service scale", "start", "stop", "swarm", "system prune", "unpause",
    "update", "volume create", "volume rm", "volume prune",
];

#[rustfmt::skip]
const COMPOSE: &[&str] =
    &["up", "down", "rm", "stop", "start", "restart", "kill", "exec", "run", "create"];

#[rustfmt::skip]
const KUBECTL: &[&str] = &[
    "annotate", "apply", "attach", "autoscale", "cordon", "cp", "create", "debug", "delete",
    "drain", "edit", "exec", "expose", "label", "patch", "replace", "rollout restart",
    "rollout undo", "rollout pause", "rollout resume", "run", "scale", "set", "taint", "uncordon",
];

#[rustfmt::skip]
const TERRAFORM: &[&str] = &[
    "apply", "destroy", "import", "state rm", "state mv", "state push", "state replace-provider",
    "taint", "untaint", "workspace new", "workspace delete", "force-unlock", "refresh",
];

fn cloud(command: &Invocation<'_>) -> bool {
    match command.base {
        "aws" => aws(&command.skipping(&["--profile", "--region", "--output", "--endpoint-url"])),
        "gcloud" | "az" => {
            let harmless =
                ["config", "auth", "account", "login", "init", "info", "version", "help"];
            let first = command.operands.first().copied().unwrap_or_default();
            !harmless.contains(&first)
                && command.operands.iter().skip(1).any(|word| is_writing(word))
        }
        "gsutil" => {
            command.has_any_verb(&["cp", "mv", "rm", "rsync", "mb", "rb", "setmeta", "acl"])
        }
        "ansible-playbook" => {
            !command.words.iter().any(|word| matches!(*word, "--check" | "-C" | "--list-tasks"))
        }
        "ansible" => command.operands.len() > 1 || command.words.contains(&"-m"),
        "vercel" => !command
            .has_any_verb(&["ls", "list", "inspect", "logs", "whoami", "env ls", "login", "dev"]),
        "heroku" => {
            let verb = command.operands.first().copied().unwrap_or_default();
            let changes =
                ["set", "unset", "destroy", "create", "restart", "scale", "run", "add", "remove"];
            changes.iter().any(|change| verb.split(':').any(|part| part == *change))
        }
        _ => {
            let command = command.skipping(&[
                "-n",
                "--namespace",
                "--context",
                "-H",
                "--host",
                "-f",
                "--file",
                "-p",
                "--kubeconfig",
                "--cluster",
                "--user",
                "--log-level",
                "-l",
                "--project-name",
            ]);
            let verbs = CLOUD.iter().filter(|(base, _)| *base == command.base);
            verbs.flat_map(|(_, verbs)| verbs.iter()).any(|verb| command.has_verb(verb))
                || compose_with_file(&command)
        }
    }
}

/// `docker compose -f file up`
fn compose_with_file(command: &Invocation<'_>) -> bool {
    let Some((&"compose", rest)) = command.words.split_first() else { return false };
    let compose = Invocation { base: command.base, words: rest.to_vec(), operands: Vec::new() };
    compose
        .skipping(&["-f", "--file", "-p", "--project-name", "--profile", "--env-file"])
        .has_any_verb(COMPOSE)
}

fn aws(command: &Invocation<'_>) -> bool {
    match command.operands.as_slice() {
        ["s3", verb, ..] => matches!(*verb, "cp" | "rm" | "mv" | "sync" | "mb" | "rb" | "website"),
        ["configure" | "sso" | "help", ..] => false,
        [_, verb, ..] => is_writing(verb),
        _ => false,
    }
}

/// Whether a verb such as `delete-stack` changes something.
fn is_writing(verb: &str) -> bool {
    #[rustfmt::skip]
    const WRITING: &[&str] = &[
        "abort", "add", "apply", "associate", "attach", "authorize", "batch", "cancel", "change",
        "clear", "copy", "create", "deallocate", "delete", "deploy", "deregister", "detach",
        "disable", "disassociate", "enable", "execute", "export", "failover", "import", "invoke",
        "modify", "move", "publish", "purge", "put", "reboot", "register", "release", "remove",
        "replace", "reset", "resize", "restart", "restore", "resume", "revoke", "rollback", "rotate",
        "run", "scale", "schedule", "send", "set", "start", "stop", "submit", "suspend", "tag",
        "terminate", "untag", "update", "upgrade", "upload", "write",
    ];
    let first = verb.split('-').next().unwrap_or(verb);
    WRITING.contains(&first)
}
