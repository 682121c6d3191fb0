//! Sharded channels: one command each, because channels of different slots cannot share one, and because a server refuses
//! those that it does not serve.
//!
//! When a slot moves away the server takes its subscriptions back with a message that looks like the answer to a command. The
//! client crate takes it for one, and from then on answers belong to the command before. So every answer here is compared with
//! what was asked, and a connection that is out of step is given up.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, PushKind, RedisError, RedisResult, ServerErrorKind, Value};

use super::Shared;
use crate::error::ErrorKind;
use crate::redis::refusal;

/// After which time a channel that the server does not serve is asked for again. Who does serve it is found out meanwhile.
pub(super) const PUT_OFF: Duration = Duration::from_millis(200);

/// Asks to hear these. What is granted comes to the [`Ear`](super::Ear).
pub(super) async fn join(
    mut connection: MultiplexedConnection,
    shared: Arc<Shared>,
    names: Arc<[Arc<str>]>,
) -> RedisResult<()> {
    let replies = send(&mut connection, "SSUBSCRIBE", &names).await?;
    let mut misplaced = false;
    for (name, reply) in names.iter().zip(&replies) {
        let refused = match reply {
            Value::ServerError(refused) => refused,
            reply if is_about(reply, &PushKind::SSubscribe, name) => continue,
            _ => return Err(out_of_step()),
        };
        let moved = matches!(refused.kind(), Some(ServerErrorKind::Moved | ServerErrorKind::Ask));
        let why = refusal::of(refused);
        if !moved && why.kind() == ErrorKind::Config {
            let topics = shared.registry().refused(std::slice::from_ref(name), why);
            topics.iter().for_each(|topic| topic.wake());
        } else {
            shared.registry().put_off(name);
            misplaced = true;
        }
    }
    if let Some(membership) = shared.membership.as_ref().filter(|_| misplaced) {
        membership.doubt.raise();
    }
    Ok(())
}

/// Asks not to hear these any more.
pub(super) async fn leave(
    mut connection: MultiplexedConnection,
    names: Arc<[Arc<str>]>,
) -> RedisResult<()> {
    let replies = send(&mut connection, "SUNSUBSCRIBE", &names).await?;
    for (name, reply) in names.iter().zip(&replies) {
        // One who does not serve the channel any more refuses, and has taken it back already.
        let refused = matches!(reply, Value::ServerError(_));
        if !refused && !is_about(reply, &PushKind::SUnsubscribe, name) {
            return Err(out_of_step());
        }
    }
    Ok(())
}

/// Nothing that a server says by itself is the answer to a PING.
pub(super) fn checked(pong: &Value) -> RedisResult<()> {
    match pong {
        Value::Push { .. } => Err(out_of_step()),
        _ => Ok(()),
    }
}

async fn send(
    connection: &mut MultiplexedConnection,
    verb: &str,
    names: &[Arc<str>],
) -> RedisResult<Vec<Value>> {
    let mut all = Pipeline::with_capacity(names.len());
    for name in names {
        all.cmd(verb).arg(&**name);
    }
    connection.send_packed_commands(&all, 0, names.len()).await
}

fn is_about(reply: &Value, wanted: &PushKind, channel: &str) -> bool {
    let Value::Push { kind, data } = reply else { return false };
    let about = matches!(data.first(), Some(Value::BulkString(name)) if name == channel.as_bytes());
    kind == wanted && about
}

fn out_of_step() -> RedisError {
    (redis::ErrorKind::Parse, "a reply does not match its request after a slot moved").into()
}
