//! Just enough of an HTTP client.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Outcome;

/// What the shop said.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
}

/// One request, on a connection of its own.
pub(crate) async fn post(to: SocketAddr, path: &str) -> Outcome<Reply> {
    let mut stream = TcpStream::connect(to).await?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let status = text.split(' ').nth(1).ok_or("no status line")?.parse()?;
    let mut headers = text.lines().skip(1).take_while(|line| !line.is_empty());
    let retry_after = headers.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("retry-after").then(|| value.trim().parse().ok())?
    });
    Ok(Reply { status, retry_after })
}

/// Many at once, to every instance in turn.
pub(crate) async fn storm(
    at: &[SocketAddr],
    many: u32,
    path: impl Fn(u32) -> String,
) -> Outcome<Vec<Reply>> {
    let mut crowd = JoinSet::new();
    for number in 0..many {
        let (to, path) = (at[number as usize % at.len()], path(number));
        crowd.spawn(async move { post(to, &path).await });
    }
    let mut replies = Vec::new();
    while let Some(reply) = crowd.join_next().await {
        replies.push(reply??);
    }
    Ok(replies)
}
