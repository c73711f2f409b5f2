//! Secrets that are recognized by their position in a command, URL, header or file.

use super::{KeywordPosition, Rule, SecretTest, token};

#[rustfmt::skip] // One rule per paragraph reads better than one argument per line.
pub(super) const COMMANDS: &[Rule] = &[
    // URLs and headers.
    token("url-password", "password in a URL",
        &["://"],
        r#"://[^ \t\r\n/?#@:"'`\\<>\[\](){}]*:([^ \t\r\n@"'`\\<>\[\](){}]{4,}?)@[A-Za-z0-9\[]"#, 1.5)
        .at(KeywordPosition::Before).test(SecretTest::InUrl),
    token("url-token", "token in place of a user name in a URL",
        &["://"], r"://([A-Za-z0-9]{20,})(?::[A-Za-z0-9_-]*)?@[A-Za-z0-9\[]", 3.0)
        .at(KeywordPosition::Before).test(SecretTest::Random),
    token("basic-auth", "Authorization header with a user name and a password",
        &["basic "], r"(?i-u:basic) {1,4}([A-Za-z0-9+/]{16,}={0,2})", 3.2)
        .at(KeywordPosition::Before).test(SecretTest::Random),
    token("bearer-token", "Authorization header with a token",
        &["bearer ", "authorization: token ", "authorization: bot ", "ssws "],
        r"(?i-u:bearer|authorization: (?:token|bot)|ssws) {1,4}([A-Za-z0-9._~+/-]{16,}={0,2})", 3.2)
        .at(KeywordPosition::Before).test(SecretTest::Random),
    token("session-cookie", "cookie that keeps a user logged in",
        &["session=", "sessionid=", "sessid=", "sid="],
        r"(?:(?:^|[^A-Za-z0-9_])(?i-u:session|sid)|(?i-u:sess(?:ion)?id))=((?:s%3A)?[A-Za-z0-9._%+/-]{24,})", 3.4)
        .at(KeywordPosition::Around(1)).test(SecretTest::Token),

    // Commands.
    token("curl-user", "user name and password for curl, wget or httpie",
        &["curl ", "wget ", "http "],
        concat!(r#"(?i-u:curl|wget|http) "#, options!(),
            r#"(?:-[A-Za-z]{0,6}u|--user|--proxy-user|-a|--auth)[ =]{0,2}\\*["']?[^ \t\r\n:"'\\$/]+:([^ \t\r\n"'\\]{4,})"#), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("mysql-password", "password attached to -p for MySQL and MariaDB",
        &["mysql", "mariadb"],
        concat!(r"(?i-u:mysql|mariadb)[a-z_-]{0,12} ", options!(), r"-p", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("command-password", "password after -p, for commands that have this option",
        &["sshpass ", "docker login ", "podman login ", "buildah login ", "skopeo login ", "registry login ",
            "az login ", "oc login ", "cf login ", "acr login ", "mongo ", "mongosh ", "mongodump ",
            "mongorestore ", "mongoexport ", "mongoimport ", "twine upload "],
        concat!(r"(?i-u:sshpass|login|upload|mongo[a-z]{0,7}|(?:docker|podman|buildah|skopeo|registry|az|oc|cf|acr|twine) [a-z]{2,8}) ",
            options!(), r"-p[ =]?", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("redis-password", "password for Redis",
        &["redis-cli ", "requirepass ", "masterauth "],
        concat!(r"(?:redis-cli ", options!(), r"(?:-a|--pass)|requirepass|masterauth) ", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("ldap-password", "password for the LDAP tools",
        &["ldapsearch ", "ldapadd ", "ldapmodify ", "ldapdelete ", "ldapwhoami ", "ldappasswd "],
        concat!(r"(?i-u:ldap)[a-z]{3,8} ", options!(), r"-[ws] ?", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("archive-password", "password of an archive",
        &["zip -", "unzip -", "7z ", "7za ", "rar "],
        concat!(r"(?:(?:un)?zip ", options!(), r"-P ?|(?:7za?|rar) ", options!(), r"-h?p)", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Password),
    token("openssl-password", "password for openssl",
        &["-passin", "-passout", "-pass ", "openssl enc "],
        concat!(r#"(?:-pass(?:in|out)?[ =]\\*["']?pass:|openssl enc "#, options!(), r"-k )", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("smb-password", "password for Windows shares and lftp",
        &["smbclient ", "rpcclient ", "net use ", "lftp "],
        concat!(r#"(?:(?:smbclient|rpcclient) "#, options!(), r#"(?:-U|--user)[ =]?\\*["']?[^ \t\r\n%"']+%|net use [ -~]{0,100}?(?:/user|/USER):[^ \t\r\n]+ |lftp "#, options!(), r#"-u ?\\*["']?[^ \t\r\n,"']+,)"#, word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("htpasswd-password", "password for htpasswd",
        &["htpasswd "],
        concat!(r"htpasswd (?:-[A-Za-z0-9]{1,8} ){0,4}-[A-Za-z]{0,6}b[A-Za-z]{0,6} (?:-[A-Za-z0-9]{1,8} ){0,4}(?:[^ \t\r\n>|;&-][^ \t\r\n>|;&]* ){1,2}", word!()), 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("chpasswd-password", "password for chpasswd",
        &["chpasswd"],
        r#"(?:(?:echo|printf)(?: -[neE]{1,3})? \\*["']?[A-Za-z0-9_.-]{1,40}:([^ \t\r\n"'`\\|]{4,})[^|\r\n]*\|[^|\r\n]*chpasswd|chpasswd[^\r\n|;&<]*<<< ?\\*["']?[A-Za-z0-9_.-]{1,40}:([^ \t\r\n"'`\\]{4,}))"#, 1.5)
        .at(KeywordPosition::Around(300)).test(SecretTest::Any),
    token("piped-password", "password piped to a command",
        &["--password-stdin", "sudo -s", " passwd ", "--with-token", "cryptsetup "],
        r#"(?:echo|printf)(?: -[neE]{1,3})? \\*["']?([^ \t\r\n"'`\\|;&<>]{4,}(?:\\{1,8}n[^ \t\r\n"'`\\|;&<>]{4,})?)[^|\r\n]*\|[^|\r\n]*?(?:--password-stdin|sudo -S| passwd |--with-token|cryptsetup )"#, 1.5)
        .at(KeywordPosition::Around(300)).test(SecretTest::Any),
    token("aws-configured-key", "key for aws configure set",
        &["configure set "],
        concat!(r"configure set (?:[A-Za-z0-9_-]{1,40}\.)?(?:aws_)?(?:secret_access_key|session_token|access_key_id) ", word!()), 3.0)
        .at(KeywordPosition::Before).test(SecretTest::Any),

    // Files.
    token("netrc-password", "line of a .netrc file",
        &["machine ", "default "],
        r"(?:machine [^ \t\r\n]+|default)(?:[ \t\r\n]|\\n){1,12}login [^ \t\r\n]+(?:[ \t\r\n]|\\n){1,12}password ([^ \t\r\n\x22\x27\\]{4,})", 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Any),
    token("pgpass-password", "line of a .pgpass file",
        &[":5432:", ":5433:", ":6432:", ":*:"],
        r#"(?:^|[^A-Za-z0-9_.-])[A-Za-z0-9_.*-]{1,80}:(?:[0-9]{2,5}|\*):[A-Za-z0-9_.*-]{1,63}:[A-Za-z0-9_.@*-]{1,63}:([^ \t\r\n:"'`\\]{6,})"#, 1.5)
        .at(KeywordPosition::Around(81)).test(SecretTest::Password),
    token("php-constant", "password or key defined in PHP",
        &["define("],
        r#"define\([ \t]{0,4}\\*["'][A-Za-z0-9_]{0,40}(?:PASSWORD|PASS|SECRET|TOKEN|_KEY|_SALT)\\*["'][ \t]{0,4},[ \t]{0,20}\\*["']([^"'\\\r\n]{6,})\\*["']"#, 2.0)
        .at(KeywordPosition::Before).test(SecretTest::Password),
    token("xml-password", "password in an XML element",
        &["password>", "passphrase>", "secret>", "token>"],
        r"(?i-u:password|passphrase|secret|token)>([^ \t\r\n<>&\x22\x27\\]{6,})</", 2.0)
        .at(KeywordPosition::Before).test(SecretTest::Password),
    token("sql-password", "password of a database user in SQL",
        &["identified ", "password '"],
        r"(?i-u:identified (?:with [a-z0-9_]{1,40} )?(?:by|as)|password) '([^ \t\r\n'\x22\\]{4,})'", 1.5)
        .at(KeywordPosition::Before).test(SecretTest::Password),

    // Code.
    token("login-call", "user name and password as arguments of a call",
        &["auth=(", ".login(", "credential(", "credentials(", "getconnection(", "basic_auth(", "basicauth("],
        r#"(?i-u:auth=|\.login|credentials?|getconnection|basic_?auth)\([ \t]{0,4}\\*["'][^"'\\\r\n]+\\*["'],[ \t]{0,4}(?:\\*["'][^"'\\\r\n]+\\*["'],[ \t]{0,4})?(?:Some\()?\\*["']([^ \t\r\n"'\\]{6,})\\*["']"#, 2.0)
        .at(KeywordPosition::Before).test(SecretTest::Password),
    token("password-argument", "password as the argument of a call",
        &["password", "passwd", "passphrase"],
        r#"(?i-u:password|passwd|passphrase)(?:\\*["'][ \t]{0,4},[ \t]{0,8}|\([ \t]{0,4})[bru]{0,2}\\*["']([^ \t\r\n"'`\\]{8,})\\*["']"#, 2.5)
        .at(KeywordPosition::Before).test(SecretTest::Password),
];
