//! etcd, of one member or of several.

mod answer;
mod builder;
mod control;
mod links;
mod member;

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

pub use self::answer::Entry;
pub use self::builder::EtcdBuilder;
pub use self::control::Control;
use self::links::Links;
use self::member::{Member, MemberSpec};
use crate::certificates::Certificates;
use crate::process::eventually;
use crate::proxy::Proxy;

/// How often other ports are tried when another process was faster.
const PORTS: usize = 20;

/// An etcd for one test. Dropping it kills the members and removes their data.
#[derive(Debug)]
pub struct Etcd {
    settings: EtcdBuilder,
    members: Vec<Member>,
    /// `m0=http://…,m1=http://…`
    cluster: String,
    /// The links between the members, if there are several.
    links: Option<Links>,
}

impl Etcd {
    /// One member of the current version.
    ///
    /// # Errors
    /// If etcd is not built, with the command that builds it; if etcd does not start, with its
    /// output.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The settings of an etcd that is not started yet.
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder::default()
    }

    /// The addresses of the members for clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.spec.address()).collect()
    }

    /// The URL for clients, with the first user and the password if there is one.
    pub fn url(&self) -> String {
        self.url_of(&self.addresses())
    }

    /// The URL for a client with a proxy before each member.
    pub fn url_through(&self, proxies: &[&Proxy]) -> String {
        self.url_of(&proxies.iter().map(|proxy| proxy.address()).collect::<Vec<_>>())
    }

    /// The certificates for etcd's clients, if etcd has TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.settings.tls.as_ref()
    }

    /// The id of a member's process; a restart changes it.
    pub fn pid(&self, member: usize) -> u32 {
        self.members[member].process.id()
    }

    /// The output of a member, over all restarts.
    pub fn log(&self, member: usize) -> String {
        self.members[member].process.log()
    }

    /// A client of this member.
    pub fn member(&self, member: usize) -> &Control {
        &self.members[member].control
    }

    /// A client of a member that runs and is not cut off.
    pub fn control(&self) -> &Control {
        let at_hand = (0..self.members.len()).find(|member| self.is_at_hand(*member));
        &self.members[at_hand.unwrap_or(0)].control
    }

    /// The leader according to most of the members.
    ///
    /// # Errors
    /// If there is no leader within 180 s.
    pub fn leader(&self) -> Result<usize> {
        eventually("etcd has a leader", || Ok(self.leader_now()))
    }

    /// Waits until most members follow another leader than `old`, and returns the new leader.
    ///
    /// # Errors
    /// If there is no other leader within 180 s.
    pub fn wait_for_other_leader(&self, old: usize) -> Result<usize> {
        eventually("etcd has another leader", || {
            Ok(self.leader_now().filter(|leader| *leader != old))
        })
    }

    /// `SIGSTOP`: the member stops, and its connections stay open.
    ///
    /// # Errors
    /// If the member does not run.
    pub fn pause(&mut self, member: usize) -> Result<()> {
        self.members[member].process.pause()
    }

    /// Lets a paused member go on.
    ///
    /// # Errors
    /// If the member does not run.
    pub fn resume(&mut self, member: usize) -> Result<()> {
        self.members[member].process.resume()
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// If the system refuses the signal.
    pub fn kill(&mut self, member: usize) -> Result<()> {
        self.members[member].process.kill()
    }

    /// Cuts a member off from all others. Clients still reach the member. The connections of the
    /// member stay open, as in a network that drops packets, and their data arrive only after
    /// [`heal`](Self::heal).
    ///
    /// # Errors
    /// If the member is the only one.
    pub fn isolate(&self, member: usize) -> Result<()> {
        self.links
            .as_ref()
            .context("the only member of an etcd has nobody to be cut off from")?
            .set(member, true);
        Ok(())
    }

    /// Lets the member communicate with the others again.
    pub fn heal(&self, member: usize) {
        self.links.iter().for_each(|links| links.set(member, false));
    }

    /// Starts a member again, after a `kill -9` if it still runs: on the same ports, with its data
    /// on disk. Waits until the member answers, if there is a majority; without a majority the
    /// member would not answer.
    ///
    /// # Errors
    /// If the member does not start, or another process has its ports.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        self.kill(member)?;
        self.respawn(member)?;
        let at_hand = (0..self.members.len()).filter(|member| self.is_at_hand(*member)).count();
        if self.is_at_hand(member) && at_hand > self.members.len() / 2 {
            self.wait_until_up(member)
        } else {
            Ok(())
        }
    }

    /// Starts all members again. For a moment no member runs.
    ///
    /// # Errors
    /// As for [`restart`](Self::restart).
    pub fn restart_all(&mut self) -> Result<()> {
        let all = 0..self.members.len();
        all.clone().try_for_each(|member| self.kill(member))?;
        all.into_iter().try_for_each(|member| self.respawn(member))?;
        self.wait_until_all_up()
    }

    fn launch(settings: &EtcdBuilder) -> Result<Self> {
        for _ in 0..PORTS {
            let mut etcd = Self::spawn(settings)?;
            match etcd.wait_until_all_up() {
                Ok(()) => {}
                Err(_) if etcd.members.iter().any(|member| is_taken(&member.process.log())) => {
                    continue;
                }
                Err(error) => return Err(error),
            }
            if !settings.users.is_empty() {
                etcd.control().admit_only(&settings.users)?;
                etcd.members
                    .iter_mut()
                    .for_each(|member| member.control = member.control.as_root());
            }
            return Ok(etcd);
        }
        bail!("{PORTS} ports were taken by somebody else before etcd had them")
    }

    fn spawn(settings: &EtcdBuilder) -> Result<Self> {
        let mut specs = (0..settings.members).map(MemberSpec::new).collect::<Result<Vec<_>>>()?;
        let mut links = (specs.len() > 1).then(|| Links::new(specs.len()));
        if let Some(links) = &mut links {
            for (member, spec) in specs.iter_mut().enumerate() {
                spec.peer = links.lay(member, spec.listens_for_peers())?;
            }
        }
        let peers: Vec<_> =
            specs.iter().map(|spec| format!("{}=http://{}", spec.name, spec.peer)).collect();
        let cluster = peers.join(",");
        let start = |spec: MemberSpec| {
            let process = spec.spawn(settings, &cluster)?;
            Ok(Member { control: spec.control(), spec, process })
        };
        let members = specs.into_iter().map(start).collect::<Result<_>>()?;
        let etcd = Self { settings: settings.clone(), members, cluster, links };
        etcd.introduce();
        Ok(etcd)
    }

    fn respawn(&mut self, member: usize) -> Result<()> {
        let member = &mut self.members[member];
        member.process = member.spec.spawn(&self.settings, &self.cluster)?;
        self.introduce();
        Ok(())
    }

    /// Gives the links the process ids of the members.
    fn introduce(&self) {
        let processes = || self.members.iter().map(|member| member.process.id()).collect();
        self.links.iter().for_each(|links| links.know(processes()));
    }

    /// Returns whether the member runs, and the other members reach it.
    fn is_at_hand(&self, member: usize) -> bool {
        let is_cut = self.links.as_ref().is_some_and(|links| links.is_cut(member));
        self.members[member].process.is_going() && !is_cut
    }

    fn wait_until_all_up(&mut self) -> Result<()> {
        (0..self.members.len()).try_for_each(|member| self.wait_until_up(member))
    }

    fn wait_until_up(&mut self, member: usize) -> Result<()> {
        let member = &mut self.members[member];
        eventually("etcd starts", || {
            member.process.must_run()?;
            // Only a member that has reached a majority knows the revision.
            Ok(member.control.revision().is_ok().then_some(()))
        })
        .with_context(|| format!("etcd said:\n{}", member.process.log()))
    }

    fn leader_now(&self) -> Option<usize> {
        let running = self
            .members
            .iter()
            .map(|member| Some(member).filter(|member| member.process.is_going()));
        let printed: Vec<_> = running.map(|member| member?.control.leader().ok()).collect();
        let votes =
            |id: u64| printed.iter().flatten().filter(|(_, leader)| *leader == Some(id)).count();
        printed
            .iter()
            .position(|printed| printed.is_some_and(|(id, _)| votes(id) > self.members.len() / 2))
    }

    fn url_of(&self, addresses: &[SocketAddr]) -> String {
        let scheme = if self.settings.tls.is_some() { "etcds" } else { "etcd" };
        let user = self.settings.users.first();
        let login =
            user.map(|user| format!("{}:{}@", user.name, user.password)).unwrap_or_default();
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        format!("{scheme}://{login}{}", addresses.join(","))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The watchdog removes the rest.
            let _ = member.process.kill();
            let _ = fs::remove_dir_all(&member.spec.folder);
        }
    }
}

/// Returns whether the log complains of a port in use.
fn is_taken(log: &str) -> bool {
    log.contains("address already in use")
}
