//! The processes of a command: the shell and everything that it starts.

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

/// The processes that belong to a command.
///
/// Normally, the command has a session of its own. All processes in that session belong to the
/// family, even if they form process groups of their own, as `timeout` does. A process leaves the
/// family only by starting another session, which a daemon does on purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    /// The process id of the shell, which is also the id of the session and the process group.
    pub(super) id: Pid,
    /// False if the system has no program `setsid`. In that case, the family is only a process
    /// group.
    pub(super) is_session: bool,
}

impl Family {
    /// Sends a signal to all processes. Ignores processes that no longer exist.
    pub(super) fn signal(self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
        for member in self.list_members() {
            let _ = kill_process(member, signal);
        }
    }

    /// Returns true if no process is left.
    pub(super) fn is_empty(self) -> bool {
        match can_list() {
            true => self.list_members().is_empty(),
            // This also counts processes that have ended but have not been reaped by their parent.
            false => test_kill_process_group(self.id).is_err(),
        }
    }

    /// Lists the living members, as far as the system shows them.
    fn list_members(self) -> Vec<Pid> {
        list_processes().into_iter().filter(|pid| self.is_living_member(*pid)).collect()
    }

    fn is_living_member(self, pid: Pid) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        parse_stat(&stat.unwrap_or_default()).is_some_and(|stat| {
            let id = if self.is_session { stat.session } else { stat.group };
            stat.is_living && id == self.id.as_raw_nonzero().get()
        })
    }
}

fn can_list() -> bool {
    std::path::Path::new("/proc/self/stat").exists()
}

fn list_processes() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// The fields of `/proc/<pid>/stat` that are needed here.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    is_living: bool,
    group: i32,
    session: i32,
}

/// Parses `/proc/<pid>/stat`. The name of the program may contain anything, so the fields are
/// counted from the last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<ProcessStat> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let is_living = !matches!(fields.next()?, "Z" | "X" | "x");
    let group = fields.nth(1)?.parse().ok()?;
    Some(ProcessStat { is_living, group, session: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_whatever_the_program_is_called() {
        let parsed = |is_living| Some(ProcessStat { is_living, group: 12, session: 34 });
        assert_eq!(parse_stat(b"12 (a) b) R 1) S 1 12 34 0 -1"), parsed(true));
        assert_eq!(parse_stat(b"12 (\xff) Z 1 12 34 0 -1"), parsed(false));
        assert_eq!(parse_stat(b"12 (a"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn the_session_of_a_process_is_read() {
        let mut command = std::process::Command::new("setsid");
        let child = command.args(["cat", "/proc/self/stat"]).stdout(std::process::Stdio::piped());
        let Ok(child) = child.spawn() else { return };
        let id = child.id().cast_signed();
        let output = child.wait_with_output().unwrap();
        if !output.stdout.is_empty() {
            let parsed = ProcessStat { is_living: true, group: id, session: id };
            assert_eq!(parse_stat(&output.stdout), Some(parsed));
        }
    }
}
