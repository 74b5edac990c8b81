//! Stores around stores.

/// Methods of a [`Store`](super::Store) around another store, which call the same method of that
/// store.
///
/// The names of the methods follow the store below. `missing_trait_methods` of clippy finds a
/// method with a default that a store around a store neither writes nor passes on.
///
/// ```
/// use std::fmt;
///
/// use async_trait::async_trait;
/// use lockkeeper_core::Result;
/// use lockkeeper_core::store::{Claim, Store, Verdict, forward_store};
///
/// #[derive(Debug)]
/// struct Printed<S>(S);
///
/// #[async_trait]
/// #[deny(clippy::missing_trait_methods)]
/// impl<S: Store> Store for Printed<S> {
///     async fn claim(&self, claim: &Claim) -> Result<Verdict> {
///         println!("{}", claim.key.name);
///         self.0.claim(claim).await
///     }
///
///     forward_store! { self => self.0;
///         capabilities admin open renew close amend withdraw wait line id fence_key on_loss
///     }
/// }
///
/// impl<S: Store> fmt::Display for Printed<S> {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         fmt::Display::fmt(&self.0, f)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_store {
    ($me:ident => $below:expr; $($method:ident)+) => {$(
        $crate::__forward_one! { $method $me $below }
    )+};
}

/// One method, as `async_trait` writes it.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_one {
    (capabilities $me:ident $below:expr) => {
        fn capabilities(&$me) -> $crate::store::Capabilities {
            $below.capabilities()
        }
    };
    (admin $me:ident $below:expr) => {
        fn admin(&$me) -> ::core::option::Option<&dyn $crate::store::Admin> {
            $below.admin()
        }
    };
    (fence_key $me:ident $below:expr) => {
        fn fence_key(&$me, key: &$crate::store::ClaimKey) -> ::core::option::Option<::std::sync::Arc<[u8]>> {
            $below.fence_key(key)
        }
    };
    (on_loss $me:ident $below:expr) => {
        fn on_loss(&$me, listener: $crate::store::Losses) {
            $below.on_loss(listener);
        }
    };
    (open $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            open<'life1, 'life2>(
                id: &'life1 $crate::store::SessionId, spec: &'life2 $crate::store::SessionSpec
            ) -> $crate::store::Opened }
    };
    (renew $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            renew<'life1, 'life2>(
                session: &'life1 $crate::store::SessionId, live: &'life2 [$crate::store::Live]
            ) -> $crate::store::Renewed }
    };
    (close $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            close<'life1, 'life2>(
                session: &'life1 $crate::store::SessionId, live: &'life2 [$crate::store::Live]
            ) -> () }
    };
    (claim $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            claim<'life1>(claim: &'life1 $crate::store::Claim) -> $crate::store::Verdict }
    };
    (amend $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            amend<'life1, 'life2>(
                key: &'life1 $crate::store::ClaimKey, number: u64, change: &'life2 $crate::store::Amend
            ) -> $crate::store::Amended }
    };
    (withdraw $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            withdraw<'life1>(
                key: &'life1 $crate::store::ClaimKey, tombstone: ::core::option::Option<::std::time::Duration>
            ) -> $crate::store::Withdrawal }
    };
    (wait $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            wait<'life1>(
                interest: $crate::store::Interest<'life1>,
                seen: $crate::store::Revision,
                within: ::std::time::Duration
            ) -> $crate::store::Wake }
    };
    (line $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below,
            line<'life1>(name: &'life1 $crate::LockName) -> $crate::store::Line }
    };
    (id $me:ident $below:expr) => {
        $crate::__forward_one! { async $me $below, id<>() -> $crate::store::StoreId }
    };
    (
        async $me:ident $below:expr,
        $method:ident<$($life:lifetime),*>($($arg:ident: $T:ty),*) -> $Out:ty
    ) => {
        fn $method<'life0, $($life,)* 'async_trait>(
            &'life0 $me, $($arg: $T),*
        ) -> ::core::pin::Pin<::std::boxed::Box<
            dyn ::core::future::Future<Output = $crate::Result<$Out>> + ::core::marker::Send + 'async_trait
        >>
        where
            'life0: 'async_trait,
            $($life: 'async_trait,)*
            Self: 'async_trait,
        {
            $below.$method($($arg),*)
        }
    };
}
