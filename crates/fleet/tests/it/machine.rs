//! A machine of a fleet: a home with a ledger.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::ZlibDecoder;
use serde_json::Value;
use takeback_base::lock_wait::LockWait;
use takeback_fleet::{
    Encrypt, Fleet, FleetError, FleetOptions, FleetSettings, JoinOptions, Joined, SyncReport,
};
use takeback_ledger::{Ledger, LedgerOptions, MessageRecord, SessionRecord, Time};

use crate::server::Server;

/// A machine with its own ledger.
pub(crate) struct Machine {
    /// The home; `None` if another process has created it.
    pub(crate) home: Option<tempfile::TempDir>,
    pub(crate) ledger: Ledger,
    pub(crate) settings: FleetSettings,
}

impl Machine {
    /// Creates a machine that does not belong to a fleet yet.
    pub(crate) fn new(name: &str, address: &str) -> Machine {
        let home = tempfile::tempdir().unwrap();
        let ledger = open_ledger(&home.path().join("state.db"));
        let settings = FleetSettings {
            encrypt: Encrypt::Private,
            name: Some(name.into()),
            postgres: Some(address.into()),
            ..FleetSettings::default()
        };
        Machine { home: Some(home), ledger, settings }
    }

    /// Creates a machine and the fleet that it belongs to. Returns the fleet's key as well.
    pub(crate) fn first(address: &str) -> (Machine, String) {
        let mut machine = Machine::new("first", address);
        let joined = machine.join(&JoinOptions::default()).unwrap();
        (machine, joined.new_key.unwrap())
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.as_ref().unwrap().path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.home().join("state.db")
    }

    pub(crate) fn fleet(&self) -> Fleet {
        open_fleet(self.home(), &self.settings)
    }

    pub(crate) fn join(&mut self, options: &JoinOptions) -> Result<Joined, FleetError> {
        self.fleet().join(&mut self.ledger, options)
    }

    /// Joins the fleet with its key.
    pub(crate) fn join_with(&mut self, key: &str) -> Result<Joined, FleetError> {
        self.join(&JoinOptions { key: Some(key.into()), ..JoinOptions::default() })
    }

    pub(crate) fn sync(&mut self) -> Result<SyncReport, FleetError> {
        self.fleet().sync(&mut self.ledger, at(1_000), &|_| {})
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.ledger.outbox_length().unwrap().unwrap()
    }

    /// Appends a message to a session, which is created if it is missing.
    pub(crate) fn say(&mut self, session: &str, role: &str, text: &str) -> i64 {
        if self.ledger.session(session).is_err() {
            let record = SessionRecord {
                id: session.into(),
                source: session.split(':').next().unwrap().into(),
                workspace: Some("/work".into()),
                ..SessionRecord::default()
            };
            self.ledger.create_session(&record, at(0)).unwrap();
        }
        let message = MessageRecord {
            role: role.into(),
            content: Some(Value::from(text)),
            ..MessageRecord::default()
        };
        self.ledger.append(session, &[message], at(1)).unwrap()[0]
    }

    /// Lists the messages of the ledger as [`shipped_messages`] lists those of the fleet.
    pub(crate) fn messages(&self) -> String {
        let mut ids = self.ledger.session_ids(&[]).unwrap();
        ids.sort();
        let mut lines = Vec::new();
        for id in ids {
            for message in self.ledger.transcript(&id).unwrap().messages {
                let MessageRecord { seq, role, undone, content, .. } = message;
                let undone = if undone { "t" } else { "f" };
                let content = content.unwrap();
                lines.push(format!("{id}|{seq}|{role}|{undone}|{}", content.as_str().unwrap()));
            }
        }
        lines.join("\n")
    }
}

/// Lists all messages of a ledger with all their fields, as [`shipped_records`] lists those of the
/// fleet.
pub(crate) fn ledger_records(ledger: &Ledger) -> Vec<String> {
    let mut ids = ledger.session_ids(&[]).unwrap();
    ids.sort();
    let mut lines = Vec::new();
    for id in ids {
        for message in ledger.transcript(&id).unwrap().messages {
            lines.push(format!("{id} {}", serde_json::to_string(&message).unwrap()));
        }
    }
    lines
}

/// Lists all messages that the fleet's database has from a machine, with all their fields.
pub(crate) fn shipped_records(server: &Server, machine: &str) -> Vec<String> {
    let rows = server.query(&format!(
        "SELECT s.id, encode(m.record, 'hex')
         FROM takeback.messages m JOIN takeback.sessions s ON s.key = m.session
         JOIN takeback.machines h ON h.key = s.machine WHERE h.name = '{machine}'
         ORDER BY s.id COLLATE \"C\", m.seq",
    ));
    let decode = |row: &str| {
        let (id, record) = row.split_once('|').unwrap();
        format!("{id} {}", serde_json::to_string(&decode_record(record)).unwrap())
    };
    rows.lines().map(decode).collect()
}

fn decode_record(record: &str) -> MessageRecord {
    let record = takeback_base::hex::decode(record).unwrap();
    let mut json = Vec::new();
    match record.split_first().unwrap() {
        (0, plain) => json.extend(plain),
        (_, compressed) => drop(ZlibDecoder::new(compressed).read_to_end(&mut json).unwrap()),
    }
    serde_json::from_slice(&json).unwrap()
}

/// Lists the messages in the fleet's database, decoding their records without the crate's own code.
pub(crate) fn shipped_messages(server: &Server) -> String {
    let rows = server.query(
        "SELECT s.id, m.seq, m.role, m.undone, encode(m.record, 'hex')
         FROM takeback.messages m JOIN takeback.sessions s ON s.key = m.session
         ORDER BY s.id COLLATE \"C\", m.seq",
    );
    let decode = |row: &str| {
        let (columns, record) = row.rsplit_once('|').unwrap();
        let message = decode_record(record);
        format!("{columns}|{}", message.content.unwrap().as_str().unwrap())
    };
    rows.lines().map(decode).collect::<Vec<_>>().join("\n")
}

pub(crate) fn open_ledger(path: &Path) -> Ledger {
    Ledger::open(path, &LedgerOptions::default()).unwrap()
}

pub(crate) fn open_fleet(home: &Path, settings: &FleetSettings) -> Fleet {
    open_waiting(home, settings, |_| {})
}

/// Opens a fleet. `on_wait` is called if a shipment has to wait for another process.
pub(crate) fn open_waiting(
    home: &Path,
    settings: &FleetSettings,
    on_wait: fn(Option<u32>),
) -> Fleet {
    let lock_wait = LockWait { limit: Duration::from_secs(60), on_wait };
    let host_name = "host".into();
    let options = FleetOptions { home, settings, host_name, version: "test", lock_wait };
    Fleet::new(options).unwrap()
}

/// Returns the time `seconds` seconds after a fixed point in time.
pub(crate) fn at(seconds: i64) -> Time {
    Time((1_700_000_000 + seconds) * 1_000)
}
