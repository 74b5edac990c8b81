//! The ways to an etcd that all cases share.

use std::time::Duration;

use lockkeeper::LockName;
use lockkeeper_testing::Ttls;

use super::servers;
use crate::shared::{etcd, etcd_debian, etcd_oldest, etcd_three, etcd_tls};

/// Makes a suite of each way to an etcd with the native layout: `$suite` is `suite` or `way_suite`
/// of `lockkeeper_testing`.
#[macro_export]
macro_rules! etcd_ways {
    ($suite:ident, left_out = $left_out:literal) => {
        $crate::__ways! {
            $suite, lacks = [PerClaimExpiry, VirtualTime], left_out = $left_out;
            etcd_one: $crate::contract::On<$crate::contract::OneMember>;
            etcd_three: $crate::contract::On<$crate::contract::ThreeMembers>;
            etcd_behind_tls: $crate::contract::On<$crate::contract::EtcdBehindTls>;
            etcd_oldest: $crate::contract::On<$crate::contract::OldestEtcd>;
            etcd_of_debian: $crate::contract::On<$crate::contract::DebianEtcd>;
        }
    };
}

/// Whole seconds. Waiters have a lease of their own if their ttl is shorter by more than one
/// second.
const SHORT: Ttls = Ttls {
    ttl: Duration::from_secs(4),
    wait_ttl: Duration::from_secs(2),
    lock_delay: Duration::from_secs(1),
};

servers! {
    SHORT, put_foreign_data;
    /// One member.
    OneMember = etcd().unwrap().url();
    /// Three members.
    ThreeMembers = etcd_three().unwrap().url();
    /// The port of the member is encrypted.
    EtcdBehindTls = {
        let etcd = etcd_tls().unwrap();
        format!("{}?ca={}", etcd.url(), etcd.certificates().unwrap().authority().display())
    };
    /// The oldest version that lockkeeper accepts.
    OldestEtcd = etcd_oldest().unwrap().url();
    /// 3.4, which has bugs with leases that no case here meets.
    DebianEtcd = etcd_debian().unwrap().url() + "?unsafe=version";
    /// The layout that lockkeeper shares with Go.
    SharedWithGo = OneMember::url() + "?layout=concurrency";
}

fn put_foreign_data(url: &str, name: &LockName, round: usize) {
    let etcd = etcd().unwrap();
    match url.contains("layout=concurrency") {
        true => etcd.put_foreign_data_beside_go(name, round).unwrap(),
        false => etcd.put_foreign_data(name, round).unwrap(),
    }
}
