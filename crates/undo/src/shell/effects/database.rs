//! Recognizes commands that change a database: migrations, and database clients unless they clearly
//! only read.

use super::Invocation;

/// Tools, and the verbs with which they change a database.
#[rustfmt::skip]
const VERBS: &[(&str, &[&str])] = &[
    ("aerich", &["upgrade", "downgrade"]),
    ("alembic", &["upgrade", "downgrade", "stamp"]),
    ("artisan", &["migrate", "migrate:fresh", "migrate:rollback", "migrate:refresh",
        "migrate:reset", "db:seed", "db:wipe"]),
    ("atlas", &["schema apply", "migrate apply", "schema clean"]),
    ("dbmate", &["up", "down", "drop", "migrate", "rollback", "create"]),
    ("diesel", &["migration run", "migration revert", "migration redo", "database reset",
        "database setup", "database drop", "setup"]),
    ("django-admin", DJANGO),
    ("drizzle-kit", &["push", "migrate"]),
    ("flask", &["db upgrade", "db downgrade", "db stamp"]),
    ("flyway", &["migrate", "clean", "undo", "repair", "baseline"]),
    ("goose", &["up", "down", "redo", "reset", "up-to", "down-to", "up-by-one"]),
    ("knex", &["migrate:latest", "migrate:up", "migrate:down", "migrate:rollback", "seed:run"]),
    ("liquibase", &["update", "rollback", "drop-all", "dropAll", "update-count"]),
    ("manage.py", DJANGO),
    ("migrate", &["up", "down", "drop", "force", "goto"]),
    ("mix", &["ecto.migrate", "ecto.rollback", "ecto.drop", "ecto.create", "ecto.reset",
        "ecto.setup"]),
    ("mysqladmin", &["create", "drop", "shutdown", "kill", "password", "flush-privileges",
        "reload", "refresh"]),
    ("prisma", &["migrate deploy", "migrate dev", "migrate reset", "migrate resolve", "db push",
        "db execute", "db seed"]),
    ("sea-orm-cli", &["migrate"]),
    ("sequelize", SEQUELIZE),
    ("sequelize-cli", SEQUELIZE),
    ("sqlx", &["migrate run", "migrate revert", "database drop", "database create", "database \
        reset", "database setup"]),
    ("supabase", &["db push", "db reset", "migration up"]),
    ("typeorm", &["migration:run", "migration:revert", "schema:sync", "schema:drop"]),
];

const DJANGO: &[&str] = &["migrate", "flush", "loaddata", "dbshell", "createsuperuser"];

#[rustfmt::skip]
const SEQUELIZE: &[&str] =
    &["db:migrate", "db:migrate:undo", "db:migrate:undo:all", "db:seed", "db:seed:all",
        "db:drop", "db:create"];

/// Tools whose purpose is to change a database.
#[rustfmt::skip]
const ALWAYS_CHANGING: &[&str] = &[
    "createdb", "createuser", "dropdb", "dropuser", "mongoimport", "mongorestore", "mysqlimport",
    "mysql_upgrade", "pg_restore", "reindexdb", "vacuumdb",
];

/// Returns true if a command changes data in a database.
pub(super) fn is_changing(command: &Invocation<'_>) -> bool {
    match command.base {
        "psql" | "pgcli" => {
            let lists = command.words.iter().any(|word| matches!(*word, "-l" | "--list"));
            let runs_file = !command.option_values(&["-f", "--file"]).is_empty();
            !(lists || !runs_file && is_reading_sql(&command.option_values(&["-c", "--command"])))
        }
        "mysql" | "mariadb" | "mycli" => {
            !is_reading_sql(&command.option_values(&["-e", "--execute"]))
        }
        "cockroach" => {
            command.has_verb("sql") && !is_reading_sql(&command.option_values(&["-e", "--execute"]))
        }
        "clickhouse-client" => !is_reading_sql(&command.option_values(&["-q", "--query"])),
        "clickhouse" => {
            command.has_verb("client")
                && !is_reading_sql(&command.option_values(&["-q", "--query"]))
        }
        "sqlcmd" => !is_reading_sql(&command.option_values(&["-Q", "-q"])),
        "cqlsh" | "sqlplus" | "usql" | "isql" => {
            !is_reading_sql(&command.option_values(&["-e", "-c"]))
        }
        "sqlite3" | "duckdb" | "litecli" => !is_reading_local(command),
        "redis-cli" | "valkey-cli" => !is_reading_redis(command),
        "mongosh" | "mongo" => !is_reading_mongo(&command.option_values(&["--eval"])),
        "rails" | "rake" => command.operands.first().is_some_and(|task| is_rails_change(task)),
        "python" | "python3" | "php" => is_script_change(command),
        "dotnet" => command.has_verb("ef database update") || command.has_verb("ef database drop"),
        base => {
            ALWAYS_CHANGING.contains(&base)
                || VERBS.iter().any(|(tool, verbs)| *tool == base && command.has_any_verb(verbs))
        }
    }
}

/// Returns true for `python manage.py migrate`, `php artisan migrate` and similar commands.
fn is_script_change(command: &Invocation<'_>) -> bool {
    let Some((script, rest)) = command.operands.split_first() else { return false };
    let base = script.rsplit('/').next().unwrap_or(script);
    if !matches!(base, "manage.py" | "artisan") {
        return false;
    }
    is_changing(&Invocation { base, words: rest.to_vec(), operands: rest.to_vec() })
}

fn is_rails_change(task: &str) -> bool {
    let reads = ["db:version", "db:migrate:status", "db:abort_if_pending_migrations", "dbconsole"];
    task.starts_with("db:") && !reads.contains(&task)
}

/// Returns true if there are statements and all of them only read.
fn is_reading_sql(scripts: &[&str]) -> bool {
    !scripts.is_empty() && scripts.iter().all(|script| is_reading_statements(script))
}

/// Returns true for `sqlite3 file 'select …'` and similar commands.
fn is_reading_local(command: &Invocation<'_>) -> bool {
    let mut scripts = command.option_values(&["-c", "-cmd", "--cmd"]);
    scripts.extend(command.operands.iter().skip(1));
    is_reading_sql(&scripts)
}

/// Returns true if every statement clearly only reads. Words in strings are treated as SQL.
fn is_reading_statements(script: &str) -> bool {
    #[rustfmt::skip]
    const FIRST: &[&str] =
        &["select", "show", "explain", "describe", "desc", "with", "values", "table", "pragma",
            "use"];
    #[rustfmt::skip]
    const NOT: &[&str] = &[
        "insert", "update", "delete", "drop", "alter", "create", "truncate", "merge", "grant",
        "revoke", "into", "call", "copy", "attach", "vacuum", "setval", "nextval", "lock", "analyze",
        "pg_terminate_backend", "pg_cancel_backend", "load_extension", "writefile", "outfile",
        "dumpfile", "do", "set",
    ];
    let mut statements = script.split(';').map(str::trim).filter(|one| !one.is_empty()).peekable();
    statements.peek().is_some()
        && statements.all(|statement| {
            if statement.starts_with(['\\', '.']) {
                return is_reading_meta_command(statement);
            }
            let lower = statement.to_ascii_lowercase();
            let mut words = lower
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|word| !word.is_empty());
            let Some(first) = words.next() else { return false };
            let sets = first == "pragma" && statement.contains(['=']);
            FIRST.contains(&first) && !sets && !words.any(|word| NOT.contains(&word))
        })
}

/// Returns true for a meta-command that only reads, such as `\dt` in psql or `.tables` in sqlite.
fn is_reading_meta_command(statement: &str) -> bool {
    let name = statement.split_whitespace().next().unwrap_or_default();
    let sqlite = [
        ".tables",
        ".schema",
        ".indexes",
        ".indices",
        ".databases",
        ".dbinfo",
        ".mode",
        ".headers",
        ".dump",
        ".show",
        ".help",
        ".quit",
        ".exit",
        ".width",
        ".fullschema",
    ];
    sqlite.contains(&name)
        || name.starts_with("\\d")
        || matches!(
            name,
            "\\l" | "\\l+" | "\\conninfo" | "\\x" | "\\timing" | "\\z" | "\\sf" | "\\q"
        )
}

fn is_reading_redis(command: &Invocation<'_>) -> bool {
    #[rustfmt::skip]
    const READS: &[&str] = &[
        "get", "mget", "keys", "scan", "info", "ping", "exists", "ttl", "pttl", "type", "llen",
        "lrange", "lindex", "hget", "hmget", "hgetall", "hkeys", "hvals", "hlen", "hexists",
        "smembers", "scard", "sismember", "zrange", "zcard", "zscore", "zrank", "dbsize", "monitor",
        "strlen", "getrange", "time", "xrange", "xlen", "xinfo", "object", "lastsave", "echo",
        "hscan", "sscan", "zscan", "zcount", "bitcount", "getbit", "pubsub", "slowlog", "command",
    ];
    let looks = ["--scan", "--bigkeys", "--stat", "--latency", "--memkeys", "--hotkeys"];
    if command.words.iter().any(|word| looks.contains(word)) {
        return true;
    }
    let command =
        command.skip_options(&["-h", "-p", "-a", "-n", "-u", "-s", "--user", "--pass", "-t"]);
    let [verb, rest @ ..] = command.words.as_slice() else { return false };
    let verb = verb.to_ascii_lowercase();
    let sub = rest.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    match verb.as_str() {
        "config" => sub == "get",
        "client" => matches!(sub.as_str(), "list" | "info" | "getname" | "id"),
        "memory" => matches!(sub.as_str(), "usage" | "stats" | "doctor"),
        "cluster" => matches!(sub.as_str(), "info" | "nodes" | "slots" | "shards"),
        verb => READS.contains(&verb),
    }
}

fn is_reading_mongo(scripts: &[&str]) -> bool {
    const READS: &[&str] = &["find", "count", "show ", "stats", "getcollection", "explain", "ping"];
    #[rustfmt::skip]
    const NOT: &[&str] = &[
        "insert", "update", "delete", "remove", "drop", "create", "replace", "save", "bulk", "rename",
        "modify", "$out", "$merge", "shutdown", "runcommand", "admincommand", "load(",
    ];
    let reads = |script: &&str| {
        let lower = script.to_ascii_lowercase();
        READS.iter().any(|word| lower.contains(word))
            && !NOT.iter().any(|word| lower.contains(word))
    };
    !scripts.is_empty() && scripts.iter().all(reads)
}
