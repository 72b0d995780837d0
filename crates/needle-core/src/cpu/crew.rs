//! Threads that share one pass: they look for the next piece of work while a pass runs and sleep between passes.
//!
//! A piece takes 10 to 100 µs; waking a thread through the system takes as long. So a helper that has finished looks for
//! more for a while before it parks. Work is claimed item by item: a helper that the system has taken off its core claims
//! nothing, and the others do without it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

/// Looks at the next piece before a helper parks: about 100 µs.
const PATIENCE: usize = 20_000;
/// Looks after which a waiting thread offers its core to others.
const POLITE: usize = 2_000;

/// A thread and its helpers. Of several passes at once, the first gets the helpers and the others run alone.
#[derive(Debug)]
pub(super) struct Crew {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    taken: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    /// Changes when a piece is given out and when it is taken back; odd while there is one.
    round: AtomicUsize,
    /// Helpers that may be looking at the piece.
    active: AtomicUsize,
    /// The present piece.
    piece: AtomicPtr<Piece<'static>>,
    ended: AtomicBool,
}

/// A piece of work: items to be claimed, and what to do with each.
struct Piece<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    items: usize,
    /// Helpers that take part.
    members: usize,
    /// The next item that nobody has claimed.
    next: AtomicUsize,
    failed: AtomicBool,
}

impl Piece<'_> {
    /// Claims items until there are none.
    fn claim(&self) {
        loop {
            let item = self.next.fetch_add(1, Ordering::Relaxed);
            if item >= self.items {
                return;
            }
            (self.work)(item);
        }
    }
}

/// The helpers for the length of one pass.
#[derive(Debug)]
pub(super) struct Hands<'a> {
    crew: Option<&'a Crew>,
    count: usize,
}

impl Crew {
    /// The calling thread and `count − 1` helpers.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn new(count: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            round: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            piece: AtomicPtr::new(std::ptr::null_mut()),
            ended: AtomicBool::new(false),
        });
        let mut crew = Self {
            shared,
            helpers: Vec::new(),
            taken: AtomicBool::new(false),
        };
        for number in 1..count {
            let shared = crew.shared.clone();
            let builder = thread::Builder::new().name(format!("needle-{number}"));
            crew.helpers.push(builder.spawn(move || help(&shared, number))?);
        }
        Ok(crew)
    }

    /// Members, the calling thread among them.
    pub(super) fn size(&self) -> usize {
        self.helpers.len() + 1
    }

    /// At most `count` members for one pass; one where another pass has them.
    pub(super) fn hands(&self, count: usize) -> Hands<'_> {
        let count = count.clamp(1, self.size());
        let free = count > 1 && !self.taken.swap(true, Ordering::Acquire);
        Hands {
            crew: free.then_some(self),
            count: if free { count } else { 1 },
        }
    }

    /// Calls `work` with every number below `items`, and returns when all calls have.
    fn run(&self, members: usize, items: usize, work: &(dyn Fn(usize) + Sync)) {
        let piece = Piece {
            work,
            items,
            members: members - 1,
            next: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        };
        let given = Given::out(&self.shared, &piece);
        self.helpers[..members - 1]
            .iter()
            .for_each(|helper| helper.thread().unpark());
        piece.claim();
        drop(given);
        assert!(!piece.failed.load(Ordering::Relaxed), "a helper thread panicked");
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper catches the panics of its work, so it has none of its own.
            let _ = helper.join();
        }
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        if let Some(crew) = self.crew {
            crew.taken.store(false, Ordering::Release);
        }
    }
}

impl Hands<'_> {
    /// One thread.
    pub(super) fn alone() -> Self {
        Self { crew: None, count: 1 }
    }

    /// Members.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Calls `work` once for every item, with its number.
    ///
    /// # Panics
    /// When `work` does.
    pub(super) fn each<T: Send>(&self, items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
        let Some(crew) = self.crew.filter(|_| items.len() > 1) else {
            items.iter_mut().enumerate().for_each(|(i, item)| work(i, item));
            return;
        };
        let start = Start(items.as_mut_ptr());
        crew.run(self.count.min(items.len()), items.len(), &|i| {
            let start = &start;
            // SAFETY: `i` is within the items, and every number is claimed once.
            work(i, unsafe { &mut *start.0.add(i) });
        });
    }
}

/// The address of items that are shared out one by one.
struct Start<T>(*mut T);
// SAFETY: every item is reached by one thread only, and may be sent to it.
unsafe impl<T: Send> Sync for Start<T> {}

/// A piece that helpers can see. It is taken back when this is dropped, also by a panic: they use what lies on a stack.
struct Given<'a>(&'a Shared);

impl<'a> Given<'a> {
    fn out(shared: &'a Shared, piece: &Piece<'_>) -> Self {
        let piece: *const Piece<'_> = piece;
        shared.piece.store(piece.cast_mut().cast(), Ordering::Relaxed);
        shared.round.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        // From here on no helper begins to look at the piece; those that have begun are waited for.
        self.0.round.fetch_add(1, Ordering::SeqCst);
        let mut looks = 0usize;
        while self.0.active.load(Ordering::SeqCst) > 0 {
            pause(&mut looks);
        }
    }
}

fn pause(looks: &mut usize) {
    *looks += 1;
    if looks.is_multiple_of(POLITE) {
        thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// A helper's life.
fn help(shared: &Shared, number: usize) {
    let (mut done, mut looks) = (0, 0usize);
    while !shared.ended.load(Ordering::SeqCst) {
        let round = shared.round.load(Ordering::SeqCst);
        if round.is_multiple_of(2) || round == done {
            if looks < PATIENCE {
                pause(&mut looks);
            } else {
                thread::park();
                looks = 0;
            }
            continue;
        }
        shared.active.fetch_add(1, Ordering::SeqCst);
        // Either the round is still the same, and its giver will see this helper among the active ones and wait; or it is
        // not, and the piece is left alone.
        if shared.round.load(Ordering::SeqCst) == round {
            // SAFETY: the piece was stored before its round began and stays until no helper is active.
            let piece = unsafe { &*shared.piece.load(Ordering::Relaxed) };
            if number <= piece.members
                && std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| piece.claim())).is_err()
            {
                piece.failed.store(true, Ordering::Relaxed);
            }
        }
        shared.active.fetch_sub(1, Ordering::SeqCst);
        (done, looks) = (round, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_whoever_does_it() {
        let rounds = if cfg!(miri) { 5 } else { 2000 };
        for count in [1, 2, 4] {
            let crew = Crew::new(count).unwrap();
            let hands = crew.hands(count);
            let mut items = vec![0usize; 9];
            for round in 0..rounds {
                hands.each(&mut items, |i, item| *item += i + round);
            }
            for (i, item) in items.iter().enumerate() {
                assert_eq!(*item, rounds * i + rounds * (rounds - 1) / 2);
            }
        }
    }

    #[test]
    fn two_passes_at_once_do_not_meet() {
        let crew = Crew::new(3).unwrap();
        let work = || {
            let hands = crew.hands(3);
            let mut items = [1u64; 20];
            (0..20).for_each(|_| hands.each(&mut items, |_, item| *item = *item * 3 % 1_000_003));
            items
        };
        let (here, there) = thread::scope(|scope| {
            let there = scope.spawn(work);
            (work(), there.join().unwrap())
        });
        assert_eq!(here, there);
        assert_eq!(crew.hands(3).count(), 3);
    }

    #[test]
    fn a_panic_comes_through_and_leaves_the_crew_whole() {
        let crew = Crew::new(3).unwrap();
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            crew.hands(3).each(&mut [0; 12], |i, _| assert_ne!(i, 7));
        }));
        assert!(failed.is_err());
        let mut items = [0; 12];
        crew.hands(3).each(&mut items, |i, item| *item = i);
        assert_eq!(items, std::array::from_fn(|i| i));
    }
}
