//! `distlock completions` and `distlock man`: what can be said of the arguments, from the arguments.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::exit::{Exit, Failure};
use crate::print;

pub(super) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "distlock", &mut script);
    print::out(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// The command of the manual: `help` is no page of it.
fn whole() -> clap::Command {
    Args::command().disable_help_subcommand(true)
}

pub(super) fn man(dir: Option<PathBuf>) -> Result<Exit, Failure> {
    let cannot = |cause| Failure::System("write the manual", cause);
    match dir {
        Some(dir) => {
            fs::create_dir_all(&dir).map_err(cannot)?;
            clap_mangen::generate_to(whole(), &dir).map_err(cannot)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(whole()).render(&mut page).map_err(cannot)?;
            print::out(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Exit::Done)
}
