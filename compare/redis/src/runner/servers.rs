//! The servers: one Redis, the servers of a Redlock while that is measured, and a PostgreSQL if one
//! is installed.

use std::path::Path;

use anyhow::{Context, Result};
use compare_common::runner::{Counts, Kind, Servers};

use crate::kinds::{POSTGRES, is_redlock};
use crate::majority::Majority;
use crate::postgres::Postgres;
use crate::redis::Redis;

pub(crate) struct All {
    pub(crate) redis: Redis,
    pub(crate) majority: Option<Majority>,
    postgres: Option<Postgres>,
}

impl All {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let (redis, postgres) = (Redis::start(dir)?, Postgres::start(dir)?);
        Ok(Self { redis, majority: None, postgres })
    }
}

impl Servers for All {
    fn url(&self, kind: Kind) -> String {
        match (&self.postgres, &self.majority) {
            (Some(postgres), _) if kind == POSTGRES => postgres.url(),
            (_, Some(majority)) if is_redlock(kind) => majority.url(),
            _ => self.redis.url(),
        }
    }

    fn has(&self, kind: Kind) -> bool {
        match kind {
            POSTGRES => self.postgres.is_some(),
            kind => !is_redlock(kind) || self.majority.is_some(),
        }
    }

    fn begin(&mut self, kind: Kind) -> Result<()> {
        let majority = self.majority.iter().find(|_| is_redlock(kind));
        majority.map_or(Ok(()), |majority| majority.measure(true))
    }

    fn finish(&mut self, kind: Kind) -> Result<()> {
        let majority = self.majority.iter().find(|_| is_redlock(kind));
        majority.map_or(Ok(()), |majority| majority.measure(false))
    }

    /// For PostgreSQL only the processor time is known.
    fn counts(&mut self, kind: Kind) -> Result<Counts> {
        if let Some(majority) = self.majority.as_mut().filter(|_| is_redlock(kind)) {
            return majority.counts(kind);
        }
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
