//! The servers: one Redis, and a PostgreSQL beside it if one is installed.

use std::path::Path;

use anyhow::{Context, Result};
use compare_common::runner::{Counts, Kind, Servers};

use crate::kinds::POSTGRES;
use crate::postgres::Postgres;
use crate::redis::Redis;

pub(crate) struct Both {
    pub(crate) redis: Redis,
    postgres: Option<Postgres>,
}

impl Both {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        Ok(Self { redis: Redis::start(dir)?, postgres: Postgres::start(dir)? })
    }
}

impl Servers for Both {
    fn url(&self, kind: Kind) -> String {
        match &self.postgres {
            Some(postgres) if kind == POSTGRES => postgres.url(),
            _ => self.redis.url(),
        }
    }

    fn has(&self, kind: Kind) -> bool {
        kind != POSTGRES || self.postgres.is_some()
    }

    /// For PostgreSQL only the processor time is known.
    fn counts(&mut self, kind: Kind) -> Result<Counts> {
        if kind != POSTGRES {
            return self.redis.counts(kind);
        }
        let cpu = self.postgres.as_ref().context("there is no PostgreSQL")?.cpu()?;
        Ok(Counts { cpu, ..Counts::default() })
    }

    fn memory(&mut self) -> Result<Option<u64>> {
        self.redis.memory().map(Some)
    }
}
