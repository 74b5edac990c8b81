//! The options that the builders of all stores on Redis have.

/// The options of a builder whose field `setup` has the `hosts`, the `db` and the `waived` checks,
/// and the opening of the store by its keeper.
#[macro_export]
macro_rules! server_options {
    ($builder:ident) => {
        impl $builder {
            /// Logs in as this user of the access list; the default user by default. If no password
            /// is set, the user logs in with the empty password.
            pub fn user(mut self, user: impl Into<String>) -> Self {
                self.setup.hosts.user = Some(user.into());
                self
            }

            /// Logs in with this password, at Sentinels too, unless they have a login of their own.
            pub fn password(mut self, password: lockkeeper_core::Secret) -> Self {
                self.setup.hosts.password = Some(password);
                self
            }

            /// Encrypts all connections.
            pub fn tls(mut self, tls: lockkeeper_core::Tls) -> Self {
                self.setup.hosts.tls = Some(tls);
                self
            }

            /// Sets the number of the database; 0 by default. A Cluster has only database 0.
            pub fn db(mut self, db: u32) -> Self {
                self.setup.db = db;
                self
            }

            /// Sets how long a request may stay without an answer before the connection counts as
            /// broken; 3 s by default, at least 50 ms and at most 24 h.
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.setup.hosts.timeout = $crate::setup::TIMEOUT.nearest(timeout);
                self
            }

            /// Waives this check: the store connects although the check fails.
            pub fn allow(mut self, check: $crate::checks::Check) -> Self {
                self.setup.waived.push(check);
                self
            }
        }

        #[async_trait::async_trait]
        impl lockkeeper_core::Open<dyn lockkeeper_core::store::Store> for $builder {
            async fn opened(
                self: Box<Self>,
            ) -> lockkeeper_core::Result<std::sync::Arc<dyn lockkeeper_core::store::Store>> {
                Ok(std::sync::Arc::new(self.connect().await?))
            }
        }
    };
}

/// The further options of a builder whose `setup` is a [`Setup`](crate::setup::Setup).
#[macro_export]
macro_rules! deployment_options {
    ($builder:ident) => {
        $crate::server_options!($builder);

        impl $builder {
            /// Logs in to the Sentinels as this user, with this password.
            pub fn sentinel_login(
                mut self,
                user: Option<&str>,
                password: Option<lockkeeper_core::Secret>,
            ) -> Self {
                self.setup.sentinel_user = user.map(str::to_owned);
                self.setup.sentinel_password = password;
                self
            }

            /// Speaks RESP2, with a second connection for the messages that the server pushes. By
            /// default RESP3 is tried first.
            pub fn resp2(mut self) -> Self {
                self.setup.resp2 = true;
                self
            }
        }
    };
}
