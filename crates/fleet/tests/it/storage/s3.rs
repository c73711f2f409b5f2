//! A server of the S3 protocol: moto from PyPI. It checks signatures and permissions.

use std::process::Command;

use takeback_fleet::{ObjectsError, Provider};

use super::{BUCKET, StorageServer, access_to, find_tool};

/// The number of requests before the server begins to check signatures.
const UNSIGNED: usize = 6;

pub(super) fn start() -> Option<StorageServer> {
    let mut server = start_with(Some(UNSIGNED))?;
    server.secrets = create_user(&server, "owner");
    let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A\
        %22Allow%22%2C%22Action%22%3A%22s3%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
    ask_iam(
        &server,
        &format!("Action=PutUserPolicy&UserName=owner&PolicyName=all&PolicyDocument={policy}"),
    );
    let stranger = create_user(&server, "stranger");
    let with = |key: &str, secret: &str| access_to(Provider::S3, server.port, &[key, secret]);
    server.refused_access = vec![
        (with(&server.secrets[0], "wrong"), |error| {
            matches!(error, ObjectsError::Credentials { .. })
        }),
        (with(&stranger[0], &stranger[1]), |error| {
            matches!(error, ObjectsError::Permission { .. })
        }),
    ];
    Some(server)
}

/// Starts a server that accepts all requests. It is much faster because it checks no signatures.
pub(super) fn start_open() -> Option<StorageServer> {
    start_with(None)
}

pub(super) fn create_object(server: &StorageServer, key: &str) {
    ask(server, "PUT", &format!("/{BUCKET}/{key}"), "s3", "");
}

fn start_with(unsigned: Option<usize>) -> Option<StorageServer> {
    let program = find_tool("moto", "bin/moto_server")?;
    let server = StorageServer::run(Provider::S3, &["any", "any"], |port| {
        let mut command = Command::new(&program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command.envs(unsigned.map(|count| ("INITIAL_NO_AUTH_ACTION_COUNT", count.to_string())));
        command
    });
    ask(&server, "PUT", &format!("/{BUCKET}"), "s3", "");
    Some(server)
}

/// Creates a user with a key.
fn create_user(server: &StorageServer, name: &str) -> Vec<String> {
    ask_iam(server, &format!("Action=CreateUser&UserName={name}"));
    let answer = ask_iam(server, &format!("Action=CreateAccessKey&UserName={name}"));
    let find = |element: &str| {
        let rest = answer.split(&format!("<{element}>")).nth(1);
        rest.and_then(|rest| rest.split('<').next()).unwrap().to_owned()
    };
    vec![find("AccessKeyId"), find("SecretAccessKey")]
}

fn ask_iam(server: &StorageServer, body: &str) -> String {
    ask(server, "POST", "/", "iam", &format!("{body}&Version=2010-05-08"))
}

/// Makes an unsigned request.
fn ask(server: &StorageServer, method: &str, path: &str, service: &str, body: &str) -> String {
    let authorization = format!(
        "Authorization: AWS4-HMAC-SHA256 Credential=x/20200101/us-east-1/{service}/aws4_request, \
         SignedHeaders=host, Signature=0"
    );
    let form = "Content-Type: application/x-www-form-urlencoded";
    server.ask(method, path, &[&authorization, form], body)
}
