//! Creating a fleet, and joining one.

use postgres::Transaction;
use postgres::error::SqlState;
use takeback_ledger::Ledger;

use crate::connection::Connection;
use crate::fleet::check_fleet;
use crate::identity::{FleetKey, Identity};
use crate::schema::{self, FleetRow};
use crate::{Encrypt, Fleet, FleetError};

/// The choices of a user who creates or joins a fleet.
#[derive(Clone, Debug, Default)]
pub struct JoinOptions {
    /// The fleet's key. A machine needs it to join an existing fleet, unless nothing is encrypted.
    pub key: Option<String>,
    /// True to join as a new machine, because this home is a copy of another machine's.
    pub as_new_machine: bool,
    /// True to ship everything again, because this ledger is an older copy.
    pub resend: bool,
}

/// The result of creating or joining a fleet.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The name of this machine.
    pub name: String,
    /// The key of a fleet that was created, to be shown once.
    pub new_key: Option<String>,
    /// True if this machine did not belong to the fleet before.
    pub is_new_machine: bool,
    /// The versions of the schema before and after; 0 if there was no schema.
    pub schema: (i32, i32),
}

impl Fleet {
    /// Creates a fleet in the database, or joins the fleet that already exists there. Brings the
    /// schema up to date. Running this again changes nothing.
    pub fn join(&self, ledger: &mut Ledger, options: &JoinOptions) -> Result<Joined, FleetError> {
        let mut connection = Connection::open(&self.address)?;
        check_encoding(&mut connection)?;
        let found = schema::read_fleet(&mut connection)?;
        let found_version = found.as_ref().map_or(0, |fleet| fleet.schema);
        if found_version > schema::VERSION {
            schema::check_version(found_version)?;
        }
        let (identity, key) = self.prepare(found.as_ref(), &connection, options)?;
        // The files are written before the fleet is created: without its key, no other machine
        // could join it.
        key.iter().try_for_each(|key| self.files.write_key(key))?;
        self.files.write_identity(&identity)?;
        let target = connection.target.clone();
        let new_check = match found {
            Some(_) => None,
            None => key.as_ref().map(FleetKey::check),
        };
        let registered = connection.run(|client| {
            let mut transaction = client.transaction()?;
            schema::lock(&mut transaction)?;
            create_or_migrate(&mut transaction, &identity, new_check.as_deref())?;
            let registered = self.register(&mut transaction, &identity);
            if registered.is_ok() {
                transaction.commit()?;
            }
            Ok(registered)
        })?;
        let is_new_machine = match registered {
            Ok(is_new) => is_new,
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                return Err(FleetError::NameTaken(self.name.clone()));
            }
            Err(error) => return Err(FleetError::from_postgres(error, &target)),
        };
        if options.resend {
            crate::objects::accept_uploads(&self.files)?;
        }
        match is_new_machine || options.resend {
            true => ledger.restart_outbox()?,
            false => ledger.start_outbox()?,
        }
        let is_new_fleet = new_check.is_some();
        Ok(Joined {
            name: self.name.clone(),
            new_key: key.filter(|_| is_new_fleet).map(|key| key.to_text()),
            is_new_machine,
            schema: (found_version, schema::VERSION),
        })
    }

    /// Determines the identity of this machine and the fleet's key.
    fn prepare(
        &self,
        fleet: Option<&FleetRow>,
        connection: &Connection,
        options: &JoinOptions,
    ) -> Result<(Identity, Option<FleetKey>), FleetError> {
        let known = self.files.read_identity()?;
        let kept = self.files.read_key()?;
        let given = options.key.as_deref();
        let given = given.map(|text| FleetKey::parse(text).ok_or(FleetError::WrongKey));
        let key = given.transpose()?.or(kept);
        let Some(fleet) = fleet else {
            // The database holds no fleet, perhaps because an earlier attempt was cut off.
            let key = key.unwrap_or_else(FleetKey::random);
            return Ok((known.unwrap_or_else(|| Identity::random(None)), Some(key)));
        };
        if let Some(known) = &known {
            check_fleet(known, fleet, connection)?;
        }
        match &key {
            Some(key) if key.check() != fleet.key_check => return Err(FleetError::WrongKey),
            None if self.encrypt != Encrypt::Off => return Err(FleetError::NoKey),
            _ => {}
        }
        let identity = match known {
            Some(known) if !options.as_new_machine => known,
            _ => Identity::random(Some(fleet.id.clone())),
        };
        Ok((identity, key))
    }

    /// Adds this machine to the fleet, or updates its name if it is already a member. Returns true
    /// if it is new.
    fn register(
        &self,
        transaction: &mut Transaction<'_>,
        identity: &Identity,
    ) -> Result<bool, postgres::Error> {
        let renamed = transaction.execute(
            "UPDATE takeback.machines SET name = $2, seen_at = now() WHERE id = $1",
            &[&identity.machine, &self.name],
        )?;
        if renamed == 0 {
            transaction.execute(
                "INSERT INTO takeback.machines (id, name) VALUES ($1, $2)",
                &[&identity.machine, &self.name],
            )?;
        }
        Ok(renamed == 0)
    }
}

/// Creates the tables and the row that describes the fleet, or brings an older schema up to date.
/// Another machine may have done this after this machine looked for the row.
fn create_or_migrate(
    transaction: &mut Transaction<'_>,
    identity: &Identity,
    new_check: Option<&str>,
) -> Result<(), postgres::Error> {
    match new_check {
        None => {
            let row = transaction.query_one("SELECT schema FROM takeback.fleet", &[])?;
            schema::migrate(transaction, row.get(0))
        }
        Some(check) => {
            schema::migrate(transaction, 0)?;
            transaction
                .execute(
                    "INSERT INTO takeback.fleet (id, schema, key_check) VALUES ($1, $2, $3)",
                    &[&identity.fleet, &schema::VERSION, &check],
                )
                .map(drop)
        }
    }
}

/// Fails if the database cannot store all text.
fn check_encoding(connection: &mut Connection) -> Result<(), FleetError> {
    let row = connection
        .run(|client| client.query_one("SELECT current_setting('server_encoding')", &[]))?;
    let encoding: String = row.get(0);
    match encoding.as_str() {
        "UTF8" => Ok(()),
        _ => Err(FleetError::Encoding { target: connection.target.clone(), encoding }),
    }
}
