//! Recognizes commands that change containers, clusters or infrastructure.

use super::Invocation;

/// Programs, and the verbs with which they change containers, clusters or infrastructure.
#[rustfmt::skip]
const VERBS: &[(&str, &[&str])] = &[
    ("cdk", &["deploy", "destroy", "bootstrap"]),
    ("docker", DOCKER),
    ("docker-compose", COMPOSE),
    ("eksctl", &["create", "delete", "scale", "upgrade"]),
    ("fly", &["deploy", "launch", "scale", "secrets set", "apps destroy", "machine"]),
    ("flyctl", &["deploy", "launch", "scale", "secrets set", "apps destroy", "machine"]),
    ("firebase", &["deploy"]),
    ("helm", &["install", "upgrade", "uninstall", "delete", "rollback"]),
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

/// Returns true if a command changes containers, clusters or infrastructure.
pub(super) fn is_changing(command: &Invocation<'_>) -> bool {
    match command.base {
        "aws" => is_aws_change(&command.skip_options(&[
            "--profile",
            "--region",
            "--output",
            "--endpoint-url",
        ])),
        "gcloud" | "az" => {
            let harmless =
                ["config", "auth", "account", "login", "init", "info", "version", "help"];
            let first = command.operands.first().copied().unwrap_or_default();
            !harmless.contains(&first)
                && command.operands.iter().skip(1).any(|word| is_writing_verb(word))
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
            let command = command.skip_options(&[
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
            let verbs = VERBS.iter().filter(|(base, _)| *base == command.base);
            verbs.flat_map(|(_, verbs)| verbs.iter()).any(|verb| command.has_verb(verb))
                || is_compose_change(&command)
        }
    }
}

/// Returns true for `docker compose -f file up` and similar commands.
fn is_compose_change(command: &Invocation<'_>) -> bool {
    let Some((&"compose", rest)) = command.words.split_first() else { return false };
    let compose = Invocation { base: command.base, words: rest.to_vec(), operands: Vec::new() };
    compose
        .skip_options(&["-f", "--file", "-p", "--project-name", "--profile", "--env-file"])
        .has_any_verb(COMPOSE)
}

fn is_aws_change(command: &Invocation<'_>) -> bool {
    match command.operands.as_slice() {
        ["s3", verb, ..] => matches!(*verb, "cp" | "rm" | "mv" | "sync" | "mb" | "rb" | "website"),
        ["configure" | "sso" | "help", ..] => false,
        [_, verb, ..] => is_writing_verb(verb),
        _ => false,
    }
}

/// Returns true if a verb such as `delete-stack` changes something.
fn is_writing_verb(verb: &str) -> bool {
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
