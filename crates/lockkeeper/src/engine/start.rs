//! The start of an engine.

use std::sync::Arc;

use super::lifetime::Lifetime;
use super::{Deadlines, Engine, LocalQueues, Owners, Settings, Stores, expiry};
use crate::events::Events;
use crate::runtime::Runtime;
use crate::time::Clock;

impl Engine {
    pub(crate) fn start(
        stores: Stores,
        clock: Clock,
        settings: Settings,
        runtime: Runtime,
        events: Events,
    ) -> Arc<Self> {
        let (lifetime, alive) = Lifetime::begin();
        let Stores { shown: store, whole } = stores;
        let engine = Arc::new(Self {
            capabilities: store.capabilities(),
            events: events.of(&store),
            store,
            whole,
            clock,
            settings,
            runtime,
            lifetime,
            sessions: Arc::default(),
            queues: LocalQueues::default(),
            owners: Arc::new(Owners::default()),
            deadlines: Deadlines::default(),
        });
        let timer =
            expiry::run(Arc::downgrade(&engine), engine.clock.clone(), engine.deadlines.clone());
        engine.runtime.serve(async move {
            let _alive = alive;
            timer.await;
        });
        engine.listen();
        engine
    }
}
