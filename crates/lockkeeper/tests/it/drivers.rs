//! A store of another crate, by its URL. A registration lasts as long as the process.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::doctor::{self, Level};
use lockkeeper::store::{Driver, Store};
use lockkeeper::url::{Scheme, StoreUrl, UrlForm, UrlSyntax};
use lockkeeper::{Keeper, MemoryStore, drivers};

static URLS: UrlSyntax =
    UrlSyntax::new(&[Scheme::new("shelf", UrlForm::Hosts, "shelf://HOST").tls("shelfs")])
        .checks(&["dust"]);
static DRIVER: Driver = Driver::new("Shelf", &URLS, |_| {
    Box::pin(async { Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>) })
});
static OTHER: Driver = Driver::new("Other", &URLS, |_| Box::pin(async { unreachable!() }));

#[tokio::test]
async fn a_registered_store_has_its_url_and_takes_no_other_scheme() {
    assert!("shelf://h".parse::<StoreUrl>().is_err());
    Keeper::register(&DRIVER).unwrap();
    Keeper::register(&DRIVER).unwrap();
    assert!(drivers().iter().any(|driver| driver.name == "Shelf"));
    let refused = Keeper::register(&OTHER).unwrap_err();
    assert_eq!(refused.message(), "Other cannot have the scheme shelf:, which another store has");
    let near = "shlef://h".parse::<StoreUrl>().unwrap_err();
    assert_eq!(near.remedy(), Some("shelf://"));
    assert_eq!(
        lockkeeper::connect("shelfs://h?unsafe=dsut").await.unwrap_err().remedy(),
        Some("unsafe=dust")
    );
    let keeper = lockkeeper::connect("shelf://h?unsafe=dust&prefix=p/").await.unwrap();
    assert_eq!(keeper.mutex("x").unwrap().lock().await.unwrap().full_name().as_str(), "p/x");
    // The driver has no checks of its own. So the examination opens the store, which fails for this
    // URL.
    let misspelt: StoreUrl = "shelfs://h?unsafe=dsut".parse().unwrap();
    let findings = doctor::examine(&misspelt, Duration::from_secs(9)).await;
    assert!(findings.iter().any(|finding| finding.level == Level::Fail), "{findings:?}");
    let findings = doctor::examine(&"shelf://h".parse().unwrap(), Duration::from_secs(9)).await;
    assert!(findings.iter().all(|finding| finding.level != Level::Fail), "{findings:?}");
}
