//! The simplest worker: says back what it is told, and with `--server` starts a server first. The tests of the kit run it.

use std::io::{BufRead, Write, stdin, stdout};

use distlock_testkit::{Flavor, Server};

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let server = args.iter().any(|arg| arg == "--server");
    let server = server.then(|| Server::builder(Flavor::Redis).start_blocking());
    if let Some(server) = &server {
        writeln!(stdout(), "server {} {}", server.pid(), server.dir().display())?;
    }
    writeln!(stdout(), "ready {} {:?}", args.join(" "), std::env::var("TESTKIT_ECHO").ok())?;
    for line in stdin().lock().lines() {
        let line = line?;
        if let Some(code) = line.strip_prefix("exit ") {
            std::process::exit(code.parse().unwrap_or(99));
        }
        writeln!(stdout(), "echo {line}")?;
    }
    Ok(())
}
