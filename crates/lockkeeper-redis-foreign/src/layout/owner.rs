//! The owner of a claim, as the other library keeps it, and back.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::Layout;
use crate::store::ClaimId;

/// The owner that a claim is in the key of the lock. Each claim has its own, so a claim that is
/// sent twice never counts as a second entry of one owner.
pub(crate) fn owner(layout: Layout, id: &ClaimId) -> Vec<u8> {
    match layout {
        Layout::Plain => HEXLOWER.encode(id.as_bytes()).into_bytes(),
        Layout::RedissonSemaphore => id.as_bytes().to_vec(),
        Layout::Redisson | Layout::RedissonFenced | Layout::RedissonFair | Layout::RedissonRw => {
            // Redisson writes the id of its client and the number of a thread.
            let hex = HEXLOWER.encode(id.as_bytes());
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            (parts.join("-") + ":1").into_bytes()
        }
    }
}

/// The id of the claim with this owner. An owner of another library has the hash of its text.
pub(crate) fn claim_id(layout: Layout, of: &[u8]) -> ClaimId {
    let bytes = match layout {
        Layout::RedissonSemaphore => of.try_into().ok(),
        _ => {
            let text = of.strip_suffix(b":1").unwrap_or(of);
            let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'-').collect();
            HEXLOWER.decode(&digits).ok().and_then(|bytes| bytes.try_into().ok())
        }
    };
    let id = bytes.map(ClaimId::from_bytes).filter(|id| owner(layout, id) == of);
    id.unwrap_or_else(|| {
        let mut hash = [0; 16];
        hash.copy_from_slice(&Sha256::digest(of)[..16]);
        ClaimId::from_bytes(hash)
    })
}

/// An owner for people: text as it is, anything else in hexadecimal digits.
pub(crate) fn shown(of: &[u8]) -> String {
    if of.is_empty() {
        return "an empty value".to_owned();
    }
    match std::str::from_utf8(of) {
        Ok(text) if !text.chars().any(char::is_control) => text.chars().take(128).collect(),
        _ => HEXLOWER.encode(&of[..of.len().min(64)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_leads_back_to_its_claim_and_only_its_own_form_does() {
        for layout in Layout::ALL {
            let id = ClaimId::random();
            let of = owner(layout, &id);
            assert_eq!(claim_id(layout, &of), id, "{layout:?}");
            if layout != Layout::RedissonSemaphore {
                let upper = of.to_ascii_uppercase();
                assert!(upper == of || claim_id(layout, &upper) != id, "{layout:?}");
                assert_ne!(claim_id(layout, &[&of[..], b"0"].concat()), id);
            }
        }
        let strange = claim_id(Layout::Plain, b"worker-7");
        assert_eq!(strange, claim_id(Layout::Plain, b"worker-7"));
        assert_ne!(strange, claim_id(Layout::Plain, b"worker-8"));
    }

    #[test]
    fn an_owner_without_text_is_shown_in_digits_or_as_empty() {
        assert_eq!(shown(b"worker-7"), "worker-7");
        assert_eq!(shown(b"\x00\xff"), "00ff");
        assert_eq!(shown(b""), "an empty value");
    }
}
