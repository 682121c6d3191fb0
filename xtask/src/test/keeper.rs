//! Makes sure that no test process outlives the runner, however the runner ends.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Reads `+ GROUP` and `- GROUP`: the second kills that process group. At the end of its input, which is the end of the
/// runner, it kills the groups that are left.
const SCRIPT: &str = r#"
groups=
while read -r what group; do
  if [ "$what" = + ]; then groups="$groups $group"; continue; fi
  kill -s KILL -- "-$group"
  left=
  for other in $groups; do [ "$other" = "$group" ] || left="$left $other"; done
  groups=$left
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

/// A shell that kills process groups: when asked to, and all of them when the runner is gone.
///
/// A signal handler would not do: Ctrl-C may kill the runner while it is starting a process, and `SIGKILL` has no handler.
pub(crate) struct Keeper {
    shell: Child,
    /// `None` only while this value is dropped.
    orders: Mutex<Option<ChildStdin>>,
}

impl Keeper {
    pub(crate) fn start() -> Result<Keeper, String> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped());
        // A group that has ended by itself is no news.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C is sent to the runner's group; the shell has work to do then.
        command.process_group(0);
        let mut shell = command.spawn().map_err(|error| format!("cannot run sh: {error}"))?;
        let orders = shell.stdin.take().ok_or("the shell's input is not piped")?;
        Ok(Keeper { shell, orders: Mutex::new(Some(orders)) })
    }

    /// From now on the group dies with the runner.
    pub(crate) fn keep(&self, group: u32) {
        self.order('+', group);
    }

    /// Kills what is left of the group, and forgets it.
    pub(crate) fn kill(&self, group: u32) {
        self.order('-', group);
    }

    fn order(&self, what: char, group: u32) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(orders) = orders.as_mut() {
            // Without the shell tests still run; they are only not cleaned up after.
            let _ = orders.write_all(format!("{what} {group}\n").as_bytes());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.orders.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_group_is_killed_when_asked_and_the_rest_at_the_end() {
        let keeper = Keeper::start().unwrap();
        let (mut first, mut second) = (sleeper(), sleeper());
        keeper.keep(first.id());
        keeper.keep(second.id());
        keeper.kill(first.id());
        assert!(!first.wait().unwrap().success());
        assert!(second.try_wait().unwrap().is_none());
        drop(keeper);
        assert!(!second.wait().unwrap().success());
    }
}
