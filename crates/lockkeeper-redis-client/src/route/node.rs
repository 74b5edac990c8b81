//! The listener to one node of a cluster.

use std::sync::Weak;

use super::cluster::ClusterInner;
use crate::wire::{Endpoint, Listener};

/// Passes on the events of the connection to one node, if they concern this client still.
#[derive(Debug)]
pub(super) struct NodeListener {
    inner: Weak<ClusterInner>,
    node: Endpoint,
}

impl NodeListener {
    pub(super) fn new(inner: Weak<ClusterInner>, node: Endpoint) -> Self {
        Self { inner, node }
    }
}

impl Listener for NodeListener {
    fn pushed(&self, channel: &[u8], payload: &[u8]) {
        if let Some(inner) = self.inner.upgrade() {
            inner.listener.pushed(channel, payload);
        }
    }

    fn subscribed(&self, channel: &[u8]) {
        if let Some(inner) = self.inner.upgrade().filter(|inner| inner.is_home(channel, &self.node))
        {
            inner.listener.subscribed(channel);
        }
    }

    /// The slot is elsewhere. The map says where.
    fn unsubscribed(&self, channel: &[u8]) {
        let Some(inner) = self.inner.upgrade() else { return };
        if inner.end_subscription(channel, &self.node) {
            inner.listener.unsubscribed(channel);
            inner.news.notify_one();
        }
    }

    fn reconnected(&self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.listener.reconnected();
        }
    }

    /// The link of the node asks again by itself.
    fn refused(&self, channel: &[u8]) {
        if let Some(inner) = self.inner.upgrade().filter(|inner| inner.is_home(channel, &self.node))
        {
            inner.listener.refused(channel);
        }
    }

    /// The subscriptions at this node do not stand; those at the other nodes do.
    fn disconnected(&self) {
        let Some(inner) = self.inner.upgrade() else { return };
        for channel in inner.channels_at(&self.node) {
            inner.listener.unsubscribed(&channel);
        }
        inner.news.notify_one();
    }
}
