//! Deaths of processes, restarts, and power cuts.

use super::*;

impl World {
    pub(super) fn kill(&mut self) {
        if self.procs.len() < 2 {
            return self.new_proc();
        }
        let p = self.any_proc();
        self.expire();
        self.note(format!("process {p} dies"));
        self.procs.remove(p);
        let t = self.t;
        for agent in &mut self.agents {
            let Some(at) = agent.proc else { continue };
            if at == p {
                agent.gone = true;
                let delay = us(agent.spec.lock_delay);
                for cl in &mut agent.claims {
                    if cl.stage == Stage::Granted && !cl.dead && !cl.released {
                        cl.cool_until = t + delay;
                    }
                    cl.dead = true;
                }
                agent.proc = Some(usize::MAX);
            } else if at > p && at != usize::MAX {
                agent.proc = Some(at - 1);
            }
        }
    }

    /// The power is cut, or the machine is restarted in order.
    pub(super) fn restart(&mut self) {
        self.expire();
        let is_cut = !self.rng.one_in(4);
        let at = if is_cut { self.rng.below(self.snaps.len()) } else { self.snaps.len() - 1 };
        let bytes = self.snaps[at].clone();
        self.note(format!(
            "restart, cut {is_cut}, {} of {} writes lost",
            self.snaps.len() - 1 - at,
            self.snaps.len() - 1
        ));
        self.db = None;
        self.procs.clear();
        for agent in self.agents.iter_mut().filter(|agent| !agent.spec.detached) {
            agent.gone = true;
            agent.proc = Some(usize::MAX);
            for cl in &mut agent.claims {
                (cl.dead, cl.cool_until, cl.keep_until) = (true, 0, 0);
            }
        }
        fs::write(self.path(), &bytes).unwrap();
        let down = [0, S / 10, S, 20 * S][self.rng.below(4)];
        let up = [S / 10, S, 30 * S][self.rng.below(3)];
        self.t += down + up;
        self.boots += 1;
        self.boot_start = self.t - up;
        loop {
            self.expire();
            let mut db = database::connect(&self.path()).unwrap();
            db.execute_batch("PRAGMA synchronous = OFF").unwrap();
            let _ = db.query_row("PRAGMA journal_mode = MEMORY", [], |_| Ok(()));
            let boot = self.boot();
            match boot::greet(&mut db, &self.path(), &boot, &self.clients) {
                Ok(()) => {
                    self.db = Some(db);
                    break;
                }
                Err(error) => {
                    self.note(format!("refused: {error}"));
                    self.t += S;
                }
            }
        }
        self.snaps = vec![fs::read(self.path()).unwrap()];
        self.new_proc();
    }
}
