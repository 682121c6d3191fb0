//! A real pseudo-terminal with a program on it, and what a person would see there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{await_exit, kill, wait_until};

pub(crate) struct Terminal {
    master: File,
    /// Kept open, so that the terminal is there when the program has left it.
    slave: OwnedFd,
    seen: Arc<Mutex<Seen>>,
    pub(crate) child: Child,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Runs the command on a terminal of this size, as a shell would: in a session of its own, which the terminal controls.
    pub(crate) fn start(command: &Command, rows: u16, cols: u16) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&master, size(rows, cols)).unwrap();

        let mut session = Command::new("setsid");
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => session.env(key, value),
                None => session.env_remove(key),
            };
        }
        session.env("TERM", "xterm-256color");
        session.current_dir(command.get_current_dir().unwrap());
        let io = || Stdio::from(slave.try_clone().unwrap());
        let child = session.stdin(io()).stdout(io()).stderr(io()).spawn().unwrap();

        let parser = vt100::Parser::new(rows, cols, 0);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        let master = File::from(master);
        let (mut reader, screen) = (master.try_clone().unwrap(), seen.clone());
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut seen = screen.lock().unwrap();
                seen.parser.process(&buffer[..count]);
                seen.bytes.extend(&buffer[..count]);
            }
        });
        Terminal { master, slave: slave.into(), seen, child }
    }

    /// What is on the screen now.
    pub(crate) fn text(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// The lines of the screen.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let (_, cols) = seen.parser.screen().size();
        seen.parser.screen().rows(0, cols).collect()
    }

    /// Every byte that came.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    /// Waits until the screen is so.
    pub(crate) fn await_screen(&self, what: &str, mut is_so: impl FnMut(&str) -> bool) -> String {
        let mut last = String::new();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, || {
                last = self.text();
                is_so(&last)
            });
        }));
        assert!(seen.is_ok(), "never: {what}; the screen:\n{}", self.text());
        last
    }

    pub(crate) fn await_text(&self, text: &str) -> String {
        self.await_screen(text, |screen| screen.contains(text))
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(rows, cols);
        // The kernel tells whoever the terminal controls.
        tcsetwinsize(&self.master, size(rows, cols)).unwrap();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        kill(&self.child, signal);
    }

    /// Whether keys come at once and unseen, as programs want that draw.
    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Whether a shell would find it as it left it.
    pub(crate) fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
            && !screen.alternate_screen()
            && !screen.hide_cursor()
    }

    pub(crate) fn end(&mut self) -> std::process::ExitStatus {
        await_exit(&mut self.child)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It is gone already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}
