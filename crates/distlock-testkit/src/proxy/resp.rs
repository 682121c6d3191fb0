//! Just enough of the Redis protocol to tell frames apart.

/// Bytes that are not the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What a frame from the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The reply to the oldest command still without one.
    Reply,
    /// An error reply.
    Error,
    /// The confirmation of a `SUBSCRIBE` or its like, with the command's name in lower case.
    Confirmation(String),
    /// A message, or another push that nobody asked for.
    Push,
}

/// The first bytes that a value can have.
const TYPES: &[u8] = b"+-:_#,($!=*~>%|";

/// The length of the first frame in `bytes`; `None` while it is incomplete.
pub(super) fn frame_len(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    let mut left: u64 = 1;
    while left > 0 {
        // Known by its first byte: what is not the protocol may never end its line.
        if bytes.get(at).is_some_and(|kind| !TYPES.contains(kind)) {
            return Err(Malformed);
        }
        let Some((line, next)) = line(bytes, at) else { return Ok(None) };
        let Some((&kind, rest)) = line.split_first() else { return Err(Malformed) };
        at = next;
        left -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'!' | b'=' => {
                if let Some(len) = count(rest)? {
                    at += usize::try_from(len).map_err(|_| Malformed)? + 2;
                }
            }
            b'*' | b'~' | b'>' => left += count(rest)?.unwrap_or(0),
            b'%' => left += 2 * count(rest)?.unwrap_or(0),
            // Attributes come before the value they belong to.
            b'|' => left += 2 * count(rest)?.unwrap_or(0) + 1,
            _ => return Err(Malformed),
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// The arguments of a complete request frame.
pub(super) fn arguments(frame: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let (head, mut at) = line(frame, 0).ok_or(Malformed)?;
    let mut args = Vec::new();
    for _ in 0..count(head.strip_prefix(b"*").ok_or(Malformed)?)?.unwrap_or(0) {
        let (bulk, arg, next) = bulk(frame, at)?;
        at = next;
        if !bulk {
            return Err(Malformed);
        }
        args.push(arg.to_vec());
    }
    Ok(args)
}

/// What a complete frame from the server is. `subscribed`: the connection has sent a `SUBSCRIBE`,
/// so that even in RESP2, where messages are plain arrays, they can be told from replies.
pub(super) fn classify(frame: &[u8], subscribed: bool) -> Kind {
    match frame.first() {
        Some(b'-' | b'!') => Kind::Error,
        Some(b'>') => pushed(frame).unwrap_or(Kind::Push),
        Some(b'*') if subscribed => pushed(frame).unwrap_or(Kind::Reply),
        _ => Kind::Reply,
    }
}

/// What the first element of an array says, if it is a word of publish/subscribe.
fn pushed(frame: &[u8]) -> Option<Kind> {
    let (_, at) = line(frame, 0)?;
    let (_, word, _) = bulk(frame, at).ok()?;
    match word {
        b"message" | b"pmessage" | b"smessage" => Some(Kind::Push),
        b"subscribe" | b"unsubscribe" | b"psubscribe" | b"punsubscribe" | b"ssubscribe"
        | b"sunsubscribe" => Some(Kind::Confirmation(String::from_utf8_lossy(word).into_owned())),
        _ => None,
    }
}

/// The string at `at`: whether it is a bulk string, its bytes, and where the next value starts.
fn bulk(frame: &[u8], at: usize) -> Result<(bool, &[u8], usize), Malformed> {
    let (head, start) = line(frame, at).ok_or(Malformed)?;
    let Some(len) = head.strip_prefix(b"$") else {
        return Ok((false, head.get(1..).unwrap_or_default(), start));
    };
    let len = usize::try_from(count(len)?.unwrap_or(0)).map_err(|_| Malformed)?;
    let bytes = frame.get(start..start + len).ok_or(Malformed)?;
    Ok((true, bytes, start + len + 2))
}

/// The line that starts at `at`, without its end, and where the next one starts.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&rest[..end], at + end + 2))
}

/// A length; `None` for −1, the null of RESP2.
fn count(digits: &[u8]) -> Result<Option<u64>, Malformed> {
    if digits == b"-1" {
        return Ok(None);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    text.parse().map(Some).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_length_and_no_prefix_of_it_has() {
        let frames: &[&[u8]] = &[
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":12\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"(123456789012345678901234567890\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\na\r\nb\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
            b"~1\r\n:1\r\n",
            b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
            b"|1\r\n+k\r\n:1\r\n*1\r\n:2\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        ];
        for frame in frames {
            let text = String::from_utf8_lossy(frame);
            assert_eq!(frame_len(frame), Ok(Some(frame.len())), "{text}");
            let twice = [*frame, *frame].concat();
            assert_eq!(frame_len(&twice), Ok(Some(frame.len())), "{text}");
            for end in 0..frame.len() {
                assert_eq!(frame_len(&frame[..end]), Ok(None), "{text} cut at {end}");
            }
        }
        assert_eq!(frame_len(b"GET a\r\n"), Err(Malformed));
        assert_eq!(frame_len(b"\x16\x03"), Err(Malformed));
        assert_eq!(frame_len(b"*x\r\n"), Err(Malformed));
    }

    #[test]
    fn arguments_are_binary_safe() {
        let args = arguments(b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\0\xff\r\n").unwrap();
        assert_eq!(args, [b"GET".to_vec(), b"\r\n\0\xff".to_vec()]);
        assert_eq!(arguments(b"*1\r\n:1\r\n"), Err(Malformed));
    }

    #[test]
    fn messages_and_confirmations_are_not_replies() {
        let resp2 = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        let resp3 = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        let message = b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
        let confirmation = Kind::Confirmation("subscribe".into());
        assert_eq!(classify(resp2, true), confirmation);
        assert_eq!(classify(resp3, false), confirmation);
        assert_eq!(classify(message, true), Kind::Push);
        assert_eq!(classify(message, false), Kind::Reply);
        assert_eq!(classify(b">2\r\n+invalidate\r\n_\r\n", false), Kind::Push);
        assert_eq!(classify(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", true), Kind::Reply);
        assert_eq!(classify(b"-NOPERM no\r\n", true), Kind::Error);
    }
}
