//! Which permission a server means that refuses for want of one.

use super::{Channels, NEEDS, sorted};

/// The commands that a script calls by name, in order; `pubsub` with its subcommand.
pub(crate) fn commands_in(script: &str) -> impl Iterator<Item = &str> {
    let calls = script.split("redis.call('").flat_map(|part| part.split("redis.pcall('")).skip(1);
    calls.filter_map(|call| call.split_once('\'')).map(|(name, rest)| match (name, rest) {
        ("pubsub", _) if rest.starts_with(", 'numsub'") => "pubsub|numsub",
        ("pubsub", _) => "pubsub|shardnumsub",
        _ => name,
    })
}

/// What a server that refuses for want of a permission says is missing, as far as it says so. In a script, it says at best
/// in which line.
pub(crate) fn missing(text: &str, script: Option<&str>) -> String {
    if text.contains(" channel") {
        return "an &channel for the lock's name".to_owned();
    }
    if text.contains(" key") {
        if script.is_some_and(|script| script.contains("distlock_holders")) {
            return "a ~key for the lock's name, or for what Builder::holder_info keeps beside it"
                .to_owned();
        }
        return "a ~key for the lock's name".to_owned();
    }
    let named = text.split_once("to run the '").and_then(|(_, rest)| rest.split_once('\''));
    if let Some((command, _)) = named {
        return format!("+{command}");
    }
    let Some(script) = script else { return "a permission".to_owned() };
    let line = text.rsplit_once("@user_script:").and_then(|(_, rest)| {
        let number = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        script.lines().nth(number.parse::<usize>().ok()?.checked_sub(1)?)
    });
    // An error that a script passes on is one of a protected call. Of a command that it was told, nothing is known.
    let told = script.matches("redis.pcall(").count() != script.matches("redis.pcall('").count();
    let protected = || script.lines().filter(move |line| !told && line.contains("redis.pcall"));
    let commands = match line {
        Some(line) => sorted(commands_in(line).map(|command| format!("+{command}")).collect()),
        None => {
            sorted(protected().flat_map(commands_in).map(|command| format!("+{command}")).collect())
        }
    };
    match &commands[..] {
        [] => "a permission".to_owned(),
        [one] => one.clone(),
        several => format!("one of {}", several.join(" ")),
    }
}

/// All commands that locks of any kind take on a server by itself.
pub(crate) fn all_commands() -> String {
    let all = NEEDS.iter().flat_map(|needs| needs.commands(Channels::Classic));
    sorted(all.map(|command| format!("+{command}")).collect()).join(" ")
}
