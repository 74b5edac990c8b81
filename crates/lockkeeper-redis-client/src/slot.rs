//! The slots of a Cluster.

/// The slot of a key: CRC16 of the text in the first braces, or of the whole key.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        Some(&rest[..close])
    });
    crc16(tag.unwrap_or(key)) % 16384
}

/// CRC16 as XMODEM has it: polynomial 0x1021.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of `CLUSTER KEYSLOT`.
    #[test]
    fn slots_are_those_of_the_server() {
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}:bar"), 12182);
        assert_eq!(slot(b"bar{}"), slot(b"bar{}"));
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_ne!(slot(b"{}foo"), slot(b"foo"));
    }
}
