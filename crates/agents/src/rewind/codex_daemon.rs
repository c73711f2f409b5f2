//! A connection to Codex's daemon, which holds the conversations of open terminals. Both sides send
//! JSON messages in WebSocket frames over a Unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// The socket of the daemon, in Codex's own directory. The file is a symbolic link, because the
/// path of a socket must be short.
const SOCKET: &str = "app-server-control/app-server-control.sock";

/// The maximum time to wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(15);

/// The maximum size of a message from the daemon.
const MAX_MESSAGE: u64 = 256 << 20;

/// The maximum size of the daemon's answer to the handshake.
const MAX_HANDSHAKE: usize = 16 << 10;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The state of a conversation in the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadStatus {
    /// The conversation is not open.
    Absent,
    /// The conversation is open, and is waiting for a prompt.
    Idle,
    /// The conversation is open, and a turn is running.
    Active,
}

/// A connection to a running daemon.
pub(crate) struct Daemon {
    stream: UnixStream,
    /// The id of the last request.
    last: u64,
}

impl Daemon {
    /// Connects to the daemon, if there is one.
    pub(crate) fn connect(codex_directory: &Path) -> io::Result<Daemon> {
        let stream = UnixStream::connect(codex_directory.join(SOCKET).canonicalize()?)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut daemon = Daemon { stream, last: 0 };
        daemon.shake_hands()?;
        let version = env!("CARGO_PKG_VERSION");
        let client = json!({ "name": "takeback", "title": "takeback", "version": version });
        let capabilities = json!({ "experimentalApi": true });
        let introduction = json!({ "clientInfo": client, "capabilities": capabilities });
        daemon.request("initialize", &introduction)?;
        daemon.send(TEXT, json!({ "method": "initialized" }).to_string().as_bytes())?;
        Ok(daemon)
    }

    /// Returns the state of a conversation.
    pub(crate) fn thread_status(&mut self, thread: &str) -> io::Result<ThreadStatus> {
        let answer = self.request("thread/read", &json!({ "threadId": thread }))?;
        Ok(match answer["thread"]["status"]["type"].as_str() {
            Some("idle") => ThreadStatus::Idle,
            Some("active") => ThreadStatus::Active,
            _ => ThreadStatus::Absent,
        })
    }

    /// Takes a conversation back to the point before a turn. The daemon does not change the log of
    /// the conversation, but begins another log, which continues the first part of the old one.
    pub(crate) fn revert_thread(&mut self, thread: &str, turn: &str) -> io::Result<()> {
        let point = json!({ "threadId": thread, "beforeTurnId": turn });
        self.request("thread/revert", &point).map(drop)
    }

    /// Sends a request, and returns its result.
    fn request(&mut self, method: &str, parameters: &Value) -> io::Result<Value> {
        self.last += 1;
        let request = json!({ "id": self.last, "method": method, "params": parameters });
        self.send(TEXT, request.to_string().as_bytes())?;
        loop {
            let message: Value = serde_json::from_slice(&self.receive()?)?;
            // The daemon also sends notifications, and requests with ids of its own.
            if message["id"] != self.last || message.get("method").is_some() {
                continue;
            }
            let error = &message["error"];
            return match error.is_null() {
                true => Ok(message["result"].clone()),
                false => {
                    let reason = error["message"].as_str().unwrap_or("it gave no reason");
                    Err(io::Error::other(format!("{method}: {reason}")))
                }
            };
        }
    }

    /// Turns the connection into a WebSocket.
    fn shake_hands(&mut self) -> io::Result<()> {
        // The handshake contains keys only to keep proxies from misinterpreting the connection.
        // There is no proxy on a Unix socket, so any key will do.
        self.stream.write_all(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Key: dGFrZWJhY2sgY2xpZW50IQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        )?;
        let mut answer = Vec::new();
        // Read single bytes, because the daemon may send frames immediately after the handshake.
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
            if answer.len() > MAX_HANDSHAKE {
                return Err(invalid("its handshake is too long"));
            }
        }
        match answer.starts_with(b"HTTP/1.1 101 ") {
            true => Ok(()),
            false => Err(invalid("it does not speak WebSocket")),
        }
    }

    /// Sends a message in one frame. A client must mask its messages; a mask of zeros leaves them
    /// unchanged.
    fn send(&mut self, kind: u8, message: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | kind];
        match message.len() {
            length @ 0..126 => frame.push(0x80 | u8::try_from(length).unwrap_or_default()),
            length => {
                frame.push(0x80 | 127);
                frame.extend(u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(message);
        self.stream.write_all(&frame)
    }

    /// Receives the next message, which may consist of several frames.
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head)?;
            let length = match head[1] & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.read_array()?)),
                127 => u64::from_be_bytes(self.read_array()?),
                length => u64::from(length),
            };
            if head[1] & 0x80 != 0 || message.len() as u64 + length > MAX_MESSAGE {
                return Err(invalid("it sent a frame that is not valid"));
            }
            let begin = message.len();
            let read = (&self.stream).take(length).read_to_end(&mut message)?;
            if read as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match head[0] & 0x0f {
                CLOSE => return Err(io::ErrorKind::ConnectionAborted.into()),
                PING => {
                    let content = message.split_off(begin);
                    self.send(PONG, &content)?;
                }
                PONG => message.truncate(begin),
                _ if head[0] & 0x80 != 0 => return Ok(message),
                _ => {}
            }
        }
    }

    fn read_array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("Codex's daemon: {what}"))
}
