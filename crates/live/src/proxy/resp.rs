//! The length and the strings of RESP messages.

/// The length of the first message; `None` while it is incomplete.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    walk(bytes, &mut |_| {})
}

/// The strings of a message, at any depth.
pub(super) fn words(bytes: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    walk(bytes, &mut |word| words.push(String::from_utf8_lossy(word).into_owned()));
    words
}

/// Visits the strings of one value, and returns the end of the value.
fn walk(bytes: &[u8], visit: &mut impl FnMut(&[u8])) -> Option<usize> {
    let line = bytes.windows(2).position(|end| end == b"\r\n")?;
    let (first, mut at) = (*bytes.first()?, line + 2);
    let text = bytes.get(1..line)?;
    // The length of null is -1.
    let count: usize =
        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let values = match first {
        b'$' | b'!' | b'=' => {
            if text.starts_with(b"-") {
                return Some(at);
            }
            bytes.get(at + count..at + count + 2)?;
            visit(&bytes[at..at + count]);
            return Some(at + count + 2);
        }
        b'+' | b':' => {
            visit(text);
            0
        }
        b'*' | b'~' | b'>' => count,
        b'%' => 2 * count,
        // An attribute belongs to the value after it.
        b'|' => 2 * count + 1,
        _ => 0,
    };
    for _ in 0..values {
        at += walk(bytes.get(at..)?, visit)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n";

    #[test]
    fn a_message_ends_with_its_last_value() {
        let whole: [&[u8]; 12] = [
            REQUEST,
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":12\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"_\r\n",
            b"$0\r\n\r\n",
            b"%1\r\n+a\r\n*2\r\n:1\r\n#t\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
            b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
            b"=7\r\ntxt:abc\r\n",
        ];
        for message in whole {
            let text = String::from_utf8_lossy(message);
            assert_eq!(length(&[message, b"+more\r\n"].concat()), Some(message.len()), "{text}");
            for end in 0..message.len() {
                assert_eq!(length(&message[..end]), None, "{text}, cut at {end}");
            }
        }
    }

    #[test]
    fn the_words_of_a_request_are_its_command_and_arguments() {
        assert_eq!(words(REQUEST), ["GET", "a\r\nb"]);
        assert_eq!(words(b">2\r\n+a\r\n*1\r\n$1\r\nb\r\n"), ["a", "b"]);
    }
}
