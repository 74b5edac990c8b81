//! How a URL reaches the store: `redis:` URLs with `layout=`, which the driver of the Redis store
//! passes on.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::duration::parse_duration;
use lockkeeper_core::kit::{Examination, wrong_param};

use super::{ForeignRedisStoreBuilder, Layout, Setup, doctor};
use crate::store::{DriverLayout, Examined, Examining, Store};
use crate::url::{StoreUrl, UrlSyntax};
use crate::{Error, Result};

/// The layouts, for the driver.
pub const LAYOUTS: [DriverLayout; Layout::ALL.len()] = {
    let mut all = [DriverLayout::new("", Layout::Plain.capabilities()); Layout::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        let layout = Layout::ALL[at];
        all[at] = DriverLayout::new(layout.name(), layout.capabilities());
        at += 1;
    }
    all
};

/// The layout in a URL, if it is one of another library.
///
/// # Errors
/// `Invalid` for an unknown layout, with the nearest name; `own` are the names of other layouts.
pub fn layout_of(url: &StoreUrl, own: &[&'static str]) -> Result<Option<Layout>> {
    let Some(name) = url.params.get("layout") else { return Ok(None) };
    if own.contains(&&**name) {
        return Ok(None);
    }
    match Layout::from_name(name) {
        Some(layout) => Ok(Some(layout)),
        None => Err(unknown(url, name, own)),
    }
}

fn unknown(url: &StoreUrl, name: &str, own: &[&'static str]) -> Error {
    let remedy = match Layout::nearest(name, own) {
        Some(meant) => format!("layout={meant}"),
        None => {
            let all = own.iter().copied().chain(Layout::ALL.into_iter().map(Layout::name));
            format!("layout= with one of {}", all.collect::<Vec<_>>().join(", "))
        }
    };
    Error::invalid(format!("{url}: there is no layout {name:?}")).with_remedy(remedy)
}

/// Opens the store at this URL.
///
/// # Errors
/// As [`ForeignRedisStoreBuilder::connect`], and `Invalid` for a parameter that the layout lacks.
pub async fn open(url: &StoreUrl, urls: &UrlSyntax, layout: Layout) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(from_url(url, urls, layout)?.connect().await?))
}

/// Examines the store at this URL.
pub fn examine(
    url: StoreUrl,
    within: Duration,
    urls: &'static UrlSyntax,
    layout: Layout,
) -> Examining {
    let builder = from_url(&url, urls, layout);
    Box::pin(async move {
        let mut examination = Examination::new(&url, within);
        let store = doctor::examine(&url, builder, &mut examination).await;
        let store = store.map(|store| Arc::new(store) as Arc<dyn Store>);
        Examined::new(examination.findings, store)
    })
}

pub(super) fn from_url(
    url: &StoreUrl,
    urls: &UrlSyntax,
    layout: Layout,
) -> Result<ForeignRedisStoreBuilder> {
    let setup = Setup::from_url(url, urls)?;
    if setup.min_replicas > 0 {
        return Err(wrong_param(
            url,
            "min-replicas",
            "the URL without layout=: only that layout waits for replicas",
        ));
    }
    let mut builder = ForeignRedisStoreBuilder::of(setup, layout);
    let time = |param, of, remedy| match url.params.get(param).map(|time| parse_duration(time)) {
        None => Ok(None),
        Some(Ok(time)) if layout == of && !time.is_zero() => Ok(Some(time)),
        Some(_) => Err(wrong_param(url, param, remedy)),
    };
    if let Some(ttl) = time("adopt-ttl", Layout::Plain, "adopt-ttl=30s, with layout=plain")? {
        builder = builder.adopt_ttl(ttl);
    }
    let remedy = "watchdog=60s, with layout=redisson-rw";
    if let Some(timeout) = time("watchdog", Layout::RedissonRw, remedy)? {
        builder = builder.watchdog(timeout);
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::{Param, Scheme, UrlForm};

    static URLS: UrlSyntax =
        UrlSyntax::new(&[Scheme::new("redis", UrlForm::Hosts, "redis://HOST")]).params(&[
            Param::new("layout", ""),
            Param::new("adopt-ttl", ""),
            Param::new("watchdog", ""),
            Param::new("min-replicas", ""),
        ]);

    fn read(url: &str) -> Result<ForeignRedisStoreBuilder> {
        let url: StoreUrl = url.parse()?;
        match layout_of(&url, &["native"])? {
            Some(layout) => from_url(&url, &URLS, layout),
            None => Err(Error::invalid("native")),
        }
    }

    #[test]
    fn a_layout_is_found_and_a_mistyped_one_names_the_nearest() {
        for layout in Layout::ALL {
            let url = format!("redis://h?layout={}", layout.name());
            assert_eq!(read(&url).unwrap().layout, layout);
        }
        for (url, remedy) in [
            ("redis://h?layout=plian", "layout=plain"),
            ("redis://h?layout=redison-rw", "layout=redisson-rw"),
            ("redis://h?layout=nativ", "layout=native"),
            ("redis://h?layout=plain&adopt-ttl=x", "adopt-ttl=30s, with layout=plain"),
            ("redis://h?layout=redisson&adopt-ttl=30s", "adopt-ttl=30s, with layout=plain"),
            ("redis://h?layout=redisson-rw&watchdog=x", "watchdog=60s, with layout=redisson-rw"),
            ("redis://h?layout=redisson&watchdog=60s", "watchdog=60s, with layout=redisson-rw"),
        ] {
            assert_eq!(read(url).unwrap_err().remedy(), Some(remedy), "{url}");
        }
        let error = read("redis://h?layout=sqlite").unwrap_err();
        assert!(error.remedy().unwrap().contains("native, plain, redisson,"), "{error}");
        let error = read("redis://h?layout=plain&min-replicas=1").unwrap_err();
        assert!(error.message().contains("min-replicas"), "{error}");
    }
}
