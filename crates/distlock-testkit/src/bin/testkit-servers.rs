//! Hosts the servers that test processes share: `testkit-servers SOCKET`. Ends when its standard input does.

use std::path::Path;
use std::process::ExitCode;

use distlock_testkit::shared::run_host;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [socket] = &args[..] else {
        eprintln!("usage: testkit-servers SOCKET");
        return ExitCode::from(2);
    };
    match run_host(Path::new(socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testkit-servers: cannot serve {}: {error}", socket.display());
            ExitCode::FAILURE
        }
    }
}
