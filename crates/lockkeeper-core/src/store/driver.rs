//! The facts about a store before it is open: how to open it by a URL, and its capabilities.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{Capabilities, Finding, Store};
use crate::time::Clock;
use crate::url::{StoreUrl, UrlSyntax};
use crate::{Error, ErrorKind, Result};

/// The future that opens a store.
pub type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>>> + Send>>;

/// The future that examines a store.
pub type Examining = Pin<Box<dyn Future<Output = Examined> + Send>>;

/// The future that initializes a store: what it has done.
pub type Initializing = Pin<Box<dyn Future<Output = Result<Finding>> + Send>>;

/// How a store is reached by a URL, and what it can do. `lockkeeper::drivers` lists the drivers of
/// this build, and `Keeper::register` adds one.
///
/// ```
/// use std::sync::Arc;
///
/// use lockkeeper::store::Driver;
/// use lockkeeper::url::{UrlForm, Scheme, UrlSyntax};
/// use lockkeeper::{Keeper, MemoryStore};
///
/// static URLS: UrlSyntax = UrlSyntax::new(&[Scheme::new("table", UrlForm::Alone, "table:")]);
/// static DRIVER: Driver =
///     Driver::new("Table", &URLS, |_url| Box::pin(async { Ok(Arc::new(MemoryStore::new()) as _) }));
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lockkeeper::Result<()> {
/// Keeper::register(&DRIVER)?;
/// let keeper = lockkeeper::connect("table:?prefix=billing/").await?;
/// assert!(keeper.mutex("report")?.try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct Driver {
    /// The name of the store, as people write it.
    pub name: &'static str,
    /// What its URLs look like.
    pub urls: &'static UrlSyntax,
    /// The layouts of its data, each with what the store can do in it; the first is the default.
    pub layouts: &'static [DriverLayout],
    open: fn(StoreUrl) -> Opening,
    examine: Option<fn(StoreUrl, Duration) -> Examining>,
    initialize: Option<fn(StoreUrl) -> Initializing>,
}

/// A layout of a store's data.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DriverLayout {
    /// Its name in a URL (`layout=`); empty if the store has one layout and no name for it.
    pub name: &'static str,
    /// What the store can do in this layout.
    pub capabilities: &'static Capabilities,
}

impl DriverLayout {
    /// A layout with these capabilities.
    pub const fn new(name: &'static str, capabilities: &'static Capabilities) -> Self {
        Self { name, capabilities }
    }
}

/// What an examination has found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Examined {
    /// What is right and what is wrong, in the order of the examination.
    pub findings: Vec<Finding>,
    /// The store, if locks can be acquired there. The doctor goes on with it.
    pub store: Option<Arc<dyn Store>>,
}

impl Examined {
    /// The findings, and the store if locks can be acquired there.
    pub fn new(findings: Vec<Finding>, store: Option<Arc<dyn Store>>) -> Self {
        Self { findings, store }
    }
}

impl Driver {
    /// A driver whose store is opened by `open`, which gets a URL with one of the schemes of
    /// `urls`. The driver has checked the names of its parameters, and the checks that `unsafe=`
    /// names; their values are left to `open`.
    pub const fn new(
        name: &'static str,
        urls: &'static UrlSyntax,
        open: fn(StoreUrl) -> Opening,
    ) -> Self {
        Self { name, urls, layouts: &[], open, examine: None, initialize: None }
    }

    /// The same, with an examination of its own: it gets the URL, and how long each of its steps
    /// may take. Without one, the doctor opens the store and looks at it through a keeper.
    #[must_use]
    pub const fn examining(mut self, examine: fn(StoreUrl, Duration) -> Examining) -> Self {
        self.examine = Some(examine);
        self
    }

    /// The same, for a store that an operator initializes: `initialize` gets the URL, and states
    /// that no lock is held there. `lockkeeper doctor --init` calls it.
    #[must_use]
    pub const fn initializing(mut self, initialize: fn(StoreUrl) -> Initializing) -> Self {
        self.initialize = Some(initialize);
        self
    }

    /// The same, with these layouts.
    #[must_use]
    pub const fn layouts(mut self, layouts: &'static [DriverLayout]) -> Self {
        self.layouts = layouts;
        self
    }

    /// Whether URLs of this scheme are its.
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.urls.names().any(|name| name == scheme)
    }

    /// Opens the store at `url`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a parameter, or a check in `unsafe=`, that the store
    /// does not have. The reason why the store cannot be opened.
    ///
    /// # Cancel safety
    /// The future may be dropped, as that of [`Open::opened`](crate::Open::opened).
    pub async fn open(&self, url: &StoreUrl) -> Result<Arc<dyn Store>> {
        self.urls.check(url)?;
        (self.open)(url.clone()).await
    }

    /// Initializes the store at `url`, and returns what was done.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a store that needs no initialization. The reason
    /// why the store cannot be initialized.
    ///
    /// # Cancel safety
    /// The future may be dropped.
    pub async fn initialize(&self, url: &StoreUrl) -> Result<Finding> {
        self.urls.check(url)?;
        let Some(initialize) = self.initialize else {
            let problem = format!("{} needs no initialization", self.name);
            return Err(Error::new(ErrorKind::Unsupported, problem)
                .with_remedy("lockkeeper doctor without --init"));
        };
        initialize(url.clone()).await
    }

    /// Examines the store at `url`. Each step may take `within`.
    ///
    /// # Cancel safety
    /// The future may be dropped.
    pub async fn examine(&self, url: &StoreUrl, within: Duration) -> Examined {
        if let Some(examine) = self.examine {
            return examine(url.clone(), within).await;
        }
        let opened = match Clock::boot().timeout(within, self.open(url)).await {
            Some(opened) => opened,
            None => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{url} did not answer within {within:?}"),
            )
            .with_remedy("check that the server runs and can be reached from here")),
        };
        match opened {
            Ok(store) => Examined::new(Vec::new(), Some(store)),
            Err(error) => Examined::new(vec![Finding::failed("open", &error)], None),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("name", &self.name)
            .field("urls", &self.urls)
            .finish_non_exhaustive()
    }
}
