//! Threads that share one pass: they spin for the next piece of work while a pass runs and sleep between passes.
//!
//! A piece takes 10 to 100 µs; waking a thread through the system takes as long. So a helper that has finished looks for
//! more for a while before it parks.

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

/// More than any number of helpers.
const MEMBERS: usize = 1 << 10;

/// A thread and its helpers. Of several passes at once, the first gets the helpers and the others run alone.
#[derive(Debug)]
pub(super) struct Crew {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    taken: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    /// Changes when there is a new piece: the helpers that take part in it, and above them a count of pieces. One word, so
    /// that a helper never takes the members of one round for those of another.
    round: AtomicUsize,
    /// Helpers that have not finished the present piece.
    busy: AtomicUsize,
    /// The present piece.
    piece: AtomicPtr<Piece<'static>>,
    /// Whether a piece has panicked.
    failed: AtomicBool,
    ended: AtomicBool,
}

/// What every member calls with its number.
struct Piece<'a>(&'a (dyn Fn(usize) + Sync));

/// The helpers for the length of one pass.
#[derive(Debug)]
pub(super) struct Hands<'a> {
    crew: Option<&'a Crew>,
    count: usize,
}

impl Crew {
    /// The calling thread and `count − 1` helpers.
    pub(super) fn new(count: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            round: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            piece: AtomicPtr::new(std::ptr::null_mut()),
            failed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let mut crew = Self {
            shared,
            helpers: Vec::new(),
            taken: AtomicBool::new(false),
        };
        for number in 1..count.min(MEMBERS) {
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
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.start_round(0);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper's panic was passed on when it happened.
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

    /// Calls `work` once for every item, each item on one member; member `i` of `n` takes items `i, i + n, …`.
    ///
    /// # Panics
    /// When `work` does.
    pub(super) fn each<T: Send>(&self, items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
        let Some(crew) = self.crew.filter(|_| items.len() > 1) else {
            items.iter_mut().enumerate().for_each(|(i, item)| work(i, item));
            return;
        };
        let (start, len, count) = (Start(items.as_mut_ptr()), items.len(), self.count);
        crew.run(count, &|member| {
            let start = &start;
            for i in (member..len).step_by(count) {
                // SAFETY: `i` is within the items, and no other member has this `i`.
                work(i, unsafe { &mut *start.0.add(i) });
            }
        });
    }
}

/// The address of items that are shared out one by one.
struct Start<T>(*mut T);
// SAFETY: every item is reached by one thread only, and may be sent to it.
unsafe impl<T: Send> Sync for Start<T> {}

impl Crew {
    /// Calls `work` with every number below `count`, number 0 on this thread, and returns when all have finished.
    fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        let piece = Piece(work);
        shared.busy.store(count - 1, Ordering::Relaxed);
        shared
            .piece
            .store((&raw const piece).cast_mut().cast(), Ordering::Relaxed);
        shared.start_round(count - 1);
        self.helpers[..count - 1]
            .iter()
            .for_each(|helper| helper.thread().unpark());
        let finished = Finish(shared);
        work(0);
        drop(finished);
        assert!(
            !shared.failed.swap(false, Ordering::Relaxed),
            "a helper thread panicked"
        );
    }
}

impl Shared {
    fn start_round(&self, members: usize) {
        let count = self.round.load(Ordering::Relaxed) / MEMBERS;
        self.round
            .store(count.wrapping_add(1).wrapping_mul(MEMBERS) + members, Ordering::Release);
    }
}

/// Waits for the helpers, also when this thread's own share panics: they use what lies on its stack.
struct Finish<'a>(&'a Shared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut looks = 0usize;
        while self.0.busy.load(Ordering::Acquire) > 0 {
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
    let mut seen = 0;
    loop {
        let mut looks = 0usize;
        let mut round = shared.round.load(Ordering::Acquire);
        while round == seen {
            if looks < PATIENCE {
                pause(&mut looks);
            } else {
                thread::park();
            }
            round = shared.round.load(Ordering::Acquire);
        }
        seen = round;
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        if number > round % MEMBERS {
            continue;
        }
        // SAFETY: the address was stored before the round changed, and the thread that stored it waits for `busy` to fall
        // to zero before the piece goes out of scope. A member is counted in `busy` until it has finished.
        let piece = unsafe { &*shared.piece.load(Ordering::Relaxed) };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (piece.0)(number))).is_err() {
            shared.failed.store(true, Ordering::Relaxed);
        }
        shared.busy.fetch_sub(1, Ordering::Release);
    }
}
