//! The parameters of TLS.

use super::StoreUrl;
use crate::{Error, Result, Tls};

impl StoreUrl {
    /// The TLS settings that the parameters of the URL describe.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a certificate without a key, or a key without a
    /// certificate.
    #[doc(hidden)]
    pub fn tls(&self) -> Result<Tls> {
        let file = |key: &str| self.params.get(key);
        let mut tls =
            match (file("cert"), file("key")) {
                (Some(certificate), Some(key)) => Tls::new().certificate(certificate, key),
                (None, None) => Tls::new(),
                (Some(_), None) => {
                    return Err(Error::invalid(format!("{self} has cert= without key="))
                        .with_remedy("both"));
                }
                (None, Some(_)) => {
                    return Err(Error::invalid(format!("{self} has key= without cert="))
                        .with_remedy("both"));
                }
            };
        if let Some(ca) = file("ca") {
            tls = tls.ca(ca);
        }
        Ok(match file("server-name") {
            Some(name) => tls.server_name(name),
            None => tls,
        })
    }

    /// The error for a TLS parameter in a URL without TLS.
    #[doc(hidden)]
    pub fn has_no_tls(&self, key: &str) -> Error {
        let scheme = self.scheme;
        let (kind, topology) =
            scheme.split_once('+').map_or((scheme, String::new()), |(a, b)| (a, format!("+{b}")));
        Error::invalid(format!("{self}: {key}= needs TLS, and {scheme}:// has none"))
            .with_remedy(format!("{kind}s{topology}://"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(params: &str) -> Result<Tls> {
        format!("rediss://h{params}").parse::<StoreUrl>()?.tls()
    }

    #[test]
    fn a_certificate_needs_its_key_and_a_key_its_certificate() {
        let both = tls("?cert=/c&key=/k&ca=/a&server-name=n").unwrap();
        assert_eq!(both.certificate, Some(("/c".into(), "/k".into())));
        assert_eq!((both.ca, both.server_name.as_deref()), (Some("/a".into()), Some("n")));
        assert!(tls("?cert=/c").unwrap_err().to_string().ends_with("Try: both"));
        assert!(tls("?key=/k").is_err());
        assert!(tls("").unwrap().certificate.is_none());
    }
}
