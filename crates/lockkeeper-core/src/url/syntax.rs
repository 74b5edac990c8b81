//! The form of a store's URLs, as data.

/// The URLs of a store: their schemes and their parameters. The driver of the store, the help of
/// the command line and the documentation read this.
#[derive(Debug)]
#[non_exhaustive]
pub struct UrlSyntax {
    /// The schemes, the most usual one first.
    pub schemes: &'static [Scheme],
    /// The parameters that only this store takes; all URLs take those of
    /// [`CommonParams`](super::CommonParams) too.
    pub params: &'static [Param],
    /// The names of the checks that `unsafe=` may waive.
    pub checks: &'static [&'static str],
}

impl UrlSyntax {
    /// URLs with these schemes, without own parameters and without checks to waive.
    pub const fn new(schemes: &'static [Scheme]) -> Self {
        Self { schemes, params: &[], checks: &[] }
    }

    /// The same, with these parameters.
    #[must_use]
    pub const fn params(mut self, params: &'static [Param]) -> Self {
        self.params = params;
        self
    }

    /// The same, with these checks that `unsafe=` may waive.
    #[must_use]
    pub const fn checks(mut self, checks: &'static [&'static str]) -> Self {
        self.checks = checks;
        self
    }

    /// The names of all schemes, also with TLS.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.schemes.iter().flat_map(Scheme::names)
    }

    /// The name of every scheme, and the form of its URLs.
    pub(super) fn forms(&self) -> impl Iterator<Item = (&'static str, UrlForm)> + use<> {
        self.schemes.iter().flat_map(|scheme| scheme.names().map(|name| (name, scheme.form)))
    }

    /// The names of the parameters that URLs of this scheme take.
    pub(super) fn params_of(&self, scheme: &str) -> Vec<&'static str> {
        let takes = |param: &&Param| param.only.is_none_or(|only| scheme.ends_with(only));
        self.params.iter().filter(takes).map(|param| param.name).collect()
    }
}

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// The name of the scheme, in lower case, without the colon.
    pub name: &'static str,
    /// The name of the scheme for the same store behind TLS.
    pub tls: Option<&'static str>,
    /// The form of the URL after the colon.
    pub form: UrlForm,
    /// The whole URL as people see it in a help text: `redis://HOST[:PORT][/DB]`.
    pub shown: &'static str,
}

/// The part of a URL after the colon of the scheme, before the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlForm {
    /// Nothing: `memory:`.
    Alone,
    /// The path of a file: `file:PATH`.
    Path,
    /// `//`, one host or several, and a path.
    Hosts,
}

impl Scheme {
    /// A scheme without TLS.
    pub const fn new(name: &'static str, form: UrlForm, shown: &'static str) -> Self {
        Self { name, tls: None, form, shown }
    }

    /// The same, if another scheme names the same store with TLS.
    #[must_use]
    pub const fn tls(mut self, name: &'static str) -> Self {
        self.tls = Some(name);
        self
    }

    /// The name of the scheme, and the name of the same scheme with TLS.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        [Some(self.name), self.tls].into_iter().flatten()
    }
}

/// A parameter of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Param {
    /// The name of the parameter, without the `=`.
    pub name: &'static str,
    /// The effect of the parameter, in a few words and with its default.
    pub says: &'static str,
    /// The end of the schemes that take the parameter; all schemes do if there is none.
    pub only: Option<&'static str>,
}

impl Param {
    /// A parameter that all schemes of the store take.
    pub const fn new(name: &'static str, says: &'static str) -> Self {
        Self { name, says, only: None }
    }

    /// The same for schemes that end in this way only.
    #[must_use]
    pub const fn only(mut self, end: &'static str) -> Self {
        self.only = Some(end);
        self
    }
}
