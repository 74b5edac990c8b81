//! The macros that make the types and the methods of this module from the async ones.

/// A value of the async API that this module wraps.
pub(super) trait Mirrored {
    type Here;

    /// The same value, for threads.
    fn here(self) -> Self::Here;
}

impl<T: Mirrored> Mirrored for Option<T> {
    type Here = Option<T::Here>;

    fn here(self) -> Self::Here {
        self.map(T::here)
    }
}

impl<T: Mirrored, E> Mirrored for Result<T, E> {
    type Here = Result<T::Here, E>;

    fn here(self) -> Self::Here {
        self.map(T::here)
    }
}

/// Types around the async types of the same names.
macro_rules! wrappers {
    ($($(#[$meta:meta])* $Type:ident;)+) => {$(
        $(#[$meta])*
        pub struct $Type {
            pub(in crate::blocking) inner: crate::$Type,
        }

        impl crate::blocking::mirror::Mirrored for crate::$Type {
            type Here = $Type;

            fn here(self) -> $Type {
                $Type { inner: self }
            }
        }
    )+};
}

/// Methods with the signatures of the async methods. The documentation of each method links to its
/// async method. The word before `fn` says what the method does with the async method:
/// - `call`: the same, since it does not wait;
/// - `wrap`: the result is wrapped in the type of this module;
/// - `wait`: the thread waits for the future;
/// - `set`: the async builder is replaced with the builder that the async method returns.
///
/// `<N>` is the type that converts into a name.
macro_rules! mirror {
    ($Type:ident:) => {};
    (
        $Type:ident: $(#[$meta:meta])*
        set fn $method:ident$(<$N:ident>)?(self $(, $arg:ident: $T:ty)*) -> Self; $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[doc = crate::blocking::mirror::see!($Type, $method)]
        #[must_use = "the changed value is returned"]
        pub fn $method$(<$N>)?(mut self $(, $arg: $T)*) -> Self
        $(where $N: TryInto<crate::LockName>, crate::Error: From<$N::Error>)?
        {
            self.inner = self.inner.$method($($arg),*);
            self
        }
        mirror! { $Type: $($rest)* }
    };
    (
        $Type:ident: $(#[$meta:meta])*
        $how:ident fn $method:ident$(<$N:ident>)?(&self $(, $arg:ident: $T:ty)*) -> $Out:ty; $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[doc = crate::blocking::mirror::see!($Type, $method)]
        pub fn $method$(<$N>)?(&self $(, $arg: $T)*) -> $Out
        $(where $N: TryInto<crate::LockName>, crate::Error: From<$N::Error>)?
        {
            crate::blocking::mirror::done!($how self.inner.$method($($arg),*))
        }
        mirror! { $Type: $($rest)* }
    };
    (
        $Type:ident: $(#[$meta:meta])*
        $how:ident fn $method:ident(&mut self $(, $arg:ident: $T:ty)*) -> $Out:ty; $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[doc = crate::blocking::mirror::see!($Type, $method)]
        pub fn $method(&mut self $(, $arg: $T)*) -> $Out {
            crate::blocking::mirror::done!($how self.inner.$method($($arg),*))
        }
        mirror! { $Type: $($rest)* }
    };
    (
        $Type:ident: $(#[$meta:meta])*
        $how:ident fn $method:ident(self $(, $arg:ident: $T:ty)*) -> $Out:ty; $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[doc = crate::blocking::mirror::see!($Type, $method)]
        pub fn $method(self $(, $arg: $T)*) -> $Out {
            crate::blocking::mirror::done!($how self.inner.$method($($arg),*))
        }
        mirror! { $Type: $($rest)* }
    };
}

macro_rules! done {
    (call $result:expr) => {
        $result
    };
    (wrap $result:expr) => {
        crate::blocking::mirror::Mirrored::here($result)
    };
    (wait $future:expr) => {
        crate::blocking::park::wait($future)?
    };
}

/// The last sentence of the documentation of a method.
macro_rules! see {
    ($Type:ident, $method:ident) => {
        concat!(
            "See [`",
            stringify!($Type),
            "::",
            stringify!($method),
            "`](crate::",
            stringify!($Type),
            "::",
            stringify!($method),
            ")."
        )
    };
}

/// The ways to acquire a lock: each is a method of the kind, and a method of an
/// [`Attempt`](super::Attempt) with options. Both do with the lock what the async method of the
/// same name does. The result of `held` is a guard, or the handle of a detached lock; the result of
/// `wrap` is the wrapped result of the async method.
macro_rules! ways {
    ($($Kind:ident { $($(#[$meta:meta])* $how:ident $method:ident($($arg:ident: $T:ty),*) -> $Out:ty;)+ })+) => {$($(
        impl $Kind {
            $(#[$meta])*
            ///
            /// # Errors
            /// The errors of [`Acquire`](crate::Acquire).
            #[doc = crate::blocking::mirror::see!($Kind, $method)]
            pub fn $method(&self $(, $arg: $T)*) -> Result<$Out> {
                self.attempt().$method($($arg),*)
            }
        }

        crate::blocking::mirror::way! { $Kind: $(#[$meta])* $how $method($($arg: $T),*) -> $Out }
    )+)+};
}

macro_rules! way {
    ($Kind:ident: $(#[$meta:meta])* held $method:ident($($arg:ident: $T:ty),*) -> $Out:ty) => {
        impl<G: Acquired> Attempt<'_, $Kind, G> {
            $(#[$meta])*
            ///
            /// # Errors
            /// The errors of [`Acquire`](crate::Acquire).
            pub fn $method(self $(, $arg: $T)*) -> Result<G> {
                let asked = self.lock.inner.$method($($arg),*);
                self.held(asked)
            }
        }
    };
    ($Kind:ident: $(#[$meta:meta])* wrap $method:ident($($arg:ident: $T:ty),*) -> $Out:ty) => {
        impl Attempt<'_, $Kind> {
            $(#[$meta])*
            ///
            /// # Errors
            /// The errors of [`Acquire`](crate::Acquire).
            pub fn $method(self $(, $arg: $T)*) -> Result<$Out> {
                let asked = self.lock.inner.$method($($arg),*);
                self.wrapped(asked)
            }
        }
    };
}

pub(super) use {done, mirror, see, way, ways, wrappers};
