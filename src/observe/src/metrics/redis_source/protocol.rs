//! Redis' protocol, RESP2, as far as counting needs it: commands of texts, and answers, both bounded.
//!
//! By hand: docs/decisions/0159-redis-by-hand.md.

/// Deepest list within lists of an answer.
const DEPTH_MAX: usize = 4;
/// Most values of a list.
const ITEMS_MAX: usize = 10_000;
/// Longest text.
const TEXT_MAX: usize = 64 << 10;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A simple or a bulk string.
    Text(String),
    Number(i64),
    Error(String),
    Nothing,
    List(Vec<Value>),
}

/// A command, as it is sent.
pub(super) fn written(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for part in command {
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The first answer in the bytes, and its length; `None` while it is not whole.
///
/// # Errors
/// In words, if the bytes are no answer, or one that is too large.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let mut reader = Reader { bytes, at: 0, items: 0 };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(End::Incomplete) => Ok(None),
        Err(End::Wrong(problem)) => Err(problem),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    items: usize,
}

enum End {
    Incomplete,
    Wrong(String),
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, End> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).unwrap_or(("", ""));
        Ok(match kind {
            "+" => Value::Text(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Number(number(rest)?),
            "$" => match number(rest)? {
                -1 => Value::Nothing,
                length => Value::Text(self.text(usize::try_from(length).ok())?),
            },
            "*" => match number(rest)? {
                -1 => Value::Nothing,
                count => {
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    self.items = self.items.saturating_add(count);
                    if DEPTH_MAX <= depth || ITEMS_MAX < self.items {
                        return Err(End::Wrong("its lists are too long or too deep".to_owned()));
                    }
                    Value::List((0..count).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?)
                }
            },
            _ => return Err(End::Wrong("it is not Redis' protocol".to_owned())),
        })
    }

    /// The text up to the next end of a line, which is passed.
    fn line(&mut self) -> Result<String, End> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            let wrong = TEXT_MAX < rest.len();
            return Err(if wrong {
                End::Wrong("a line of it has no end".to_owned())
            } else {
                End::Incomplete
            });
        };
        self.at += end + 2;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    /// A text of so many bytes, and the end of the line behind it.
    fn text(&mut self, length: Option<usize>) -> Result<String, End> {
        let length = length.filter(|length| *length <= TEXT_MAX);
        let length = length.ok_or_else(|| End::Wrong("a text of it is too long".to_owned()))?;
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Err(End::Incomplete);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return Err(End::Wrong("a text of it has another length than it says".to_owned()));
        }
        self.at += length + 2;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }
}

fn number(text: &str) -> Result<i64, End> {
    text.parse().map_err(|_| End::Wrong("a number of it is none".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_once_they_are_whole_and_commands_keep_every_byte() {
        let answer = b"*3\r\n:7\r\n$4\r\na\r\nb\r\n*1\r\n$-1\r\n+OK\r\n";
        let expected = Value::List(vec![
            Value::Number(7),
            Value::Text("a\r\nb".to_owned()),
            Value::List(vec![Value::Nothing]),
        ]);
        assert_eq!(read(answer), Ok(Some((expected, answer.len() - 5))));
        for end in 0..answer.len() - 5 {
            assert_eq!(read(&answer[..end]), Ok(None), "{end}");
        }
        assert_eq!(read(b"-ERR no\r\n"), Ok(Some((Value::Error("ERR no".to_owned()), 9))));
        assert_eq!(written(&["LLEN", "a\r\nb"]), b"*2\r\n$4\r\nLLEN\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn what_is_no_answer_or_too_large_is_refused() {
        let deep = b"*1\r\n".repeat(9);
        let lists = b"*1000000000\r\n".to_vec();
        let long = [b"+".to_vec(), vec![b'a'; TEXT_MAX + 1]].concat();
        for bytes in [
            b"HTTP/1.1 400 X\r\n".to_vec(),
            b":x\r\n".to_vec(),
            b"$99999999\r\n".to_vec(),
            b"$1\r\nab\r\n".to_vec(),
            deep,
            lists,
            long,
        ] {
            assert!(read(&bytes).is_err(), "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        }
    }
}
