//! Nodes and clients without time. A node may drop any claim at any moment (expiry, a clock that
//! jumps, a withdrawal). Each request may be processed at any later time and any number of times.
//! A reply counts for ever. Clients stop anywhere.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::super::{agreed, quorum};

/// The most nodes and claims of a world.
pub(super) const NODES: usize = 5;
pub(super) const CLAIMS: usize = 3;

/// One place of the rules that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The rules as they are.
    None,
    /// The token is the highest number of a majority, without a raise.
    MaximumWithoutRaise,
    /// The token is the median of the numbers.
    Median,
    /// A node that does not hold the claim acknowledges a raise.
    RaiseAnyone,
    /// Numbers above the token count as acknowledgements.
    AtLeast,
    /// A raise sets the number to the floor, although the counter is there already.
    SetToFloor,
}

/// The bounds of a world, and what may happen in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) nodes: usize,
    pub(super) claims: usize,
    /// The highest number.
    pub(super) highest: u8,
    pub(super) mutant: Mutant,
    /// The weight of each claim, and the capacity of the lock.
    pub(super) weights: [u8; CLAIMS],
    pub(super) capacity: u8,
    /// Whether nodes drop claims.
    pub(super) drops: bool,
    /// Whether other claims, which never complete, raise the counters of free nodes.
    pub(super) others: bool,
    /// How many nodes may lose their counter.
    pub(super) losses: u8,
    /// Whether a client may send any floor at any time.
    pub(super) any_floor: bool,
}

impl Bounds {
    /// Two mutexes on three nodes.
    pub(super) const MUTEX: Self = Self {
        nodes: 3,
        claims: 2,
        highest: 3,
        mutant: Mutant::None,
        weights: [1; CLAIMS],
        capacity: 1,
        drops: true,
        others: true,
        losses: 0,
        any_floor: true,
    };
}

/// What a node keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    fence: u8,
    holders: u8,
    numbers: [u8; CLAIMS],
    /// The claim to which the last number was assigned, counted from 1.
    last: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Client {
    has_begun: bool,
    token: u8,
    /// The claims that had their tokens when this one began.
    before: u8,
    /// For each node the numbers of its replies, as bits.
    replies: [u8; NODES],
}

/// One state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct World {
    nodes: [Node; NODES],
    clients: [Client; CLAIMS],
    lost: u8,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) states: usize,
    /// Two claims got one token.
    pub(super) twice: bool,
    /// A claim got a lower token than one that had returned before it began.
    pub(super) disorder: bool,
    /// More holders than the capacity.
    pub(super) crowd: bool,
    /// All claims got tokens, one after the other.
    pub(super) all_in_order: bool,
    /// A number was raised.
    pub(super) raised: bool,
}

fn bit(number: u8) -> u8 {
    1 << (number - 1)
}

impl Bounds {
    /// Visits every state; ends early at a violation if `until_violated`.
    pub(super) fn explore(&self, until_violated: bool) -> Found {
        let mut found = Found::default();
        let mut seen: HashSet<[u64; 4], BuildHasherDefault<Mixer>> = HashSet::default();
        let mut open = VecDeque::from([World::default()]);
        let mut next = Vec::new();
        seen.insert(World::default().key());
        while let Some(world) = open.pop_front() {
            self.judge(&world, &mut found);
            if until_violated && (found.twice || found.disorder || found.crowd) {
                break;
            }
            next.clear();
            self.successors(&world, &mut next);
            for world in next.drain(..) {
                let world = self.sorted(world);
                if seen.insert(world.key()) {
                    open.push_back(world);
                }
            }
        }
        found.states = seen.len();
        found
    }

    fn judge(&self, world: &World, found: &mut Found) {
        let clients = &world.clients[..self.claims];
        let done = || clients.iter().enumerate().filter(|(_, client)| client.token != 0);
        for (one, a) in done() {
            for (other, b) in done().filter(|(other, _)| *other != one) {
                found.twice |= a.token == b.token;
                found.disorder |= b.before >> one & 1 == 1 && a.token >= b.token;
                found.raised |= other < one && a.replies != b.replies;
            }
        }
        let weight: u8 = done().map(|(claim, _)| self.weights[claim]).sum();
        found.crowd |= !self.drops && weight > self.capacity;
        found.all_in_order |=
            done().count() == self.claims && clients.iter().any(|client| client.before != 0);
    }

    fn successors(&self, world: &World, next: &mut Vec<World>) {
        for claim in 0..self.claims {
            self.steps_of(world, claim, next);
        }
        for node in 0..self.nodes {
            self.accidents(world, node, next);
        }
    }

    /// What a client may do, and what nodes may do with its requests.
    fn steps_of(&self, world: &World, claim: usize, next: &mut Vec<World>) {
        let client = &world.clients[claim];
        let done = (0..self.claims).filter(|other| world.clients[*other].token != 0);
        if !client.has_begun {
            let mut world = *world;
            world.clients[claim].has_begun = true;
            world.clients[claim].before = done.fold(0, |mask, other| mask | 1 << other);
            return next.push(world);
        }
        for node in 0..self.nodes {
            for floor in 0..=self.highest {
                let is_sent = floor == 0 || self.any_floor || self.may_be_highest(client, floor);
                let mut after = *world;
                let number =
                    if is_sent { self.claim(&mut after.nodes[node], claim, floor) } else { None };
                let Some(number) = number else { continue };
                if client.token == 0 {
                    after.clients[claim].replies[node] |= bit(number);
                }
                if after != *world {
                    next.push(after);
                }
            }
        }
        for token in (1..=self.highest).filter(|_| client.token == 0) {
            if self.is_token(client, token) {
                let mut world = *world;
                world.clients[claim].token = token;
                if self.any_floor {
                    world.clients[claim].replies = [0; NODES];
                }
                next.push(world);
            }
        }
    }

    /// The rule of a node, as `lua/claim.lua` has it, without the clock.
    fn claim(&self, node: &mut Node, claim: usize, floor: u8) -> Option<u8> {
        let is_held = node.holders >> claim & 1 == 1;
        if is_held && node.numbers[claim] >= floor {
            return Some(node.numbers[claim]);
        }
        if self.mutant == Mutant::RaiseAnyone && floor > 0 && !is_held {
            node.fence = node.fence.max(floor);
            return Some(floor);
        }
        if !is_held && self.weight(node) + self.weights[claim] > self.capacity {
            return None;
        }
        let is_last = usize::from(node.last) == claim + 1;
        let number = match () {
            () if is_held && self.mutant == Mutant::SetToFloor => floor,
            () if is_last && node.fence >= floor => node.fence,
            () => (node.fence + 1).max(floor),
        };
        if number > self.highest {
            return None;
        }
        if number > node.fence || !is_last {
            node.last = u8::try_from(claim).ok()? + 1;
        }
        node.fence = node.fence.max(number);
        node.holders |= 1 << claim;
        node.numbers[claim] = number;
        Some(number)
    }

    fn weight(&self, node: &Node) -> u8 {
        (0..self.claims).filter(|at| node.holders >> at & 1 == 1).map(|at| self.weights[at]).sum()
    }

    /// Whether the client may take this number for its token.
    fn is_token(&self, client: &Client, token: u8) -> bool {
        let replies = &client.replies[..self.nodes];
        let counted = |counts: &dyn Fn(u8) -> bool| {
            let number = |replies: &u8| counts(*replies).then_some(u64::from(token));
            agreed(replies.iter().filter_map(number), quorum(self.nodes)).is_some()
        };
        match self.mutant {
            Mutant::MaximumWithoutRaise => self.may_be_highest(client, token),
            Mutant::Median => self.may_be_median(client, token),
            Mutant::AtLeast => {
                self.may_be_highest(client, token)
                    && counted(&|replies| replies & !(bit(token) - 1) != 0)
            }
            _ => counted(&|replies| replies & bit(token) != 0),
        }
    }

    /// Whether a majority has replied of which this number is the highest.
    fn may_be_highest(&self, client: &Client, number: u8) -> bool {
        let upto = bit(number) | (bit(number) - 1);
        let replies = &client.replies[..self.nodes];
        replies.iter().filter(|replies| *replies & upto != 0).count() >= quorum(self.nodes)
            && replies.iter().any(|replies| replies & bit(number) != 0)
    }

    /// Whether this number is the median of one reply of each node of a majority.
    fn may_be_median(&self, client: &Client, token: u8) -> bool {
        let mut all = vec![Vec::new()];
        for replies in &client.replies[..self.nodes] {
            let numbers = (1..=self.highest).filter(|number| replies & bit(*number) != 0);
            let longer: Vec<Vec<u8>> = numbers
                .flat_map(|number| all.iter().map(move |some| [&some[..], &[number]].concat()))
                .collect();
            all.extend(longer);
        }
        all.iter_mut().any(|some| {
            some.sort_unstable();
            some.len() >= quorum(self.nodes) && some[(some.len() - 1) / 2] == token
        })
    }

    /// What may happen to a node.
    fn accidents(&self, world: &World, at: usize, next: &mut Vec<World>) {
        let node = &world.nodes[at];
        for claim in (0..self.claims).filter(|claim| self.drops && node.holders >> claim & 1 == 1) {
            let mut world = *world;
            world.nodes[at].holders &= !(1 << claim);
            world.nodes[at].numbers[claim] = 0;
            next.push(world);
        }
        if self.others && self.weight(node) < self.capacity && node.fence < self.highest {
            let mut world = *world;
            world.nodes[at].fence += 1;
            world.nodes[at].last = 0;
            next.push(world);
        }
        if world.lost < self.losses && node.fence > 0 {
            let mut world = *world;
            world.lost += 1;
            world.nodes[at] = Node::default();
            next.push(world);
        }
    }

    /// The same world with its nodes in one order: they are equal to each other.
    fn sorted(&self, world: World) -> World {
        let mut order: Vec<usize> = (0..self.nodes).collect();
        order.sort_by_key(|at| (world.nodes[*at], world.clients.map(|client| client.replies[*at])));
        let mut sorted = world;
        for (to, from) in order.into_iter().enumerate() {
            sorted.nodes[to] = world.nodes[from];
            for (client, old) in sorted.clients.iter_mut().zip(&world.clients) {
                client.replies[to] = old.replies[from];
            }
        }
        sorted
    }
}

impl World {
    /// The state in few bits: numbers are below 8, replies are 6 bits.
    fn key(&self) -> [u64; 4] {
        let mut key = [0; 4];
        for node in &self.nodes {
            key[0] = key[0] << 5 | u64::from(node.fence) << 2 | u64::from(node.last);
            let numbers = node.numbers.iter().fold(0, |all, number| all << 3 | u64::from(*number));
            key[1] = key[1] << 12 | numbers << 3 | u64::from(node.holders);
        }
        key[0] = key[0] << 2 | u64::from(self.lost);
        for (at, client) in self.clients.iter().enumerate() {
            let own = u64::from(client.has_begun) << 6 | u64::from(client.token) << 3;
            key[0] = key[0] << 7 | own | u64::from(client.before);
            let replies = client.replies.iter().fold(0, |all, some| all << 6 | u64::from(*some));
            key[2 + at / 2] = key[2 + at / 2] << 30 | replies;
        }
        key
    }
}

/// A fast hash of a few numbers.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.chunks(8).for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        });
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
