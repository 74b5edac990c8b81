//! Reading the files that people and programs write for us: configurations, secrets, handles.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

/// More than any small file needs. An endless file, such as /dev/zero, must not fill the memory.
const MOST: u64 = 1 << 20;

/// The text of a file.
///
/// # Errors
/// Fails also for a file longer than a mebibyte, or without valid UTF-8.
pub(crate) fn read(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it has more than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}
