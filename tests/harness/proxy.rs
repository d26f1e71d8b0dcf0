//! A TCP link that can be cut and mended: what lies between an agent and its platform. Never looks at the bytes.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a stalled link looks whether it flows again.
const STALL: Duration = Duration::from_millis(20);

#[derive(Default)]
struct State {
    open: AtomicBool,
    stalled: AtomicBool,
    ended: AtomicBool,
    passed: AtomicU64,
    links: Mutex<Vec<TcpStream>>,
}

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    /// Listens on a free port of loopback and passes to `target`.
    ///
    /// Errors: no port.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        state.open.store(true, Ordering::SeqCst);
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                // A cut link refuses: the connection is closed before a byte has passed.
                if shared.open.load(Ordering::SeqCst) {
                    let _ = join(&shared, stream, target);
                }
            }
        });
        Ok(Self { address, state })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection and accepts no other until mended.
    pub fn cut(&self) {
        self.state.open.store(false, Ordering::SeqCst);
        let mut links = self
            .state
            .links
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for link in links.drain(..) {
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// Passes again.
    pub fn mend(&self) {
        self.state.open.store(true, Ordering::SeqCst);
    }

    /// Keeps connections open but passes nothing from the target to the client: a dead radio link.
    pub fn stall_answers(&self, stalled: bool) {
        self.state.stalled.store(stalled, Ordering::SeqCst);
    }

    /// Bytes that have passed, both ways.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the accept loop, which then sees that it has ended.
        let _ = TcpStream::connect(self.address);
    }
}

fn join(state: &Arc<State>, near: TcpStream, target: SocketAddr) -> io::Result<()> {
    let far = TcpStream::connect(target)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let mut links = state.links.lock().unwrap_or_else(PoisonError::into_inner);
    links.push(near.try_clone()?);
    links.push(far.try_clone()?);
    drop(links);
    // Cut while this connection was made: it must not slip through.
    if !state.open.load(Ordering::SeqCst) {
        let _ = near.shutdown(Shutdown::Both);
    }
    let (up, down) = (Arc::clone(state), Arc::clone(state));
    let (from, to) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || pass(&up, from, to, false));
    thread::spawn(move || pass(&down, far, near, true));
    Ok(())
}

fn pass(state: &State, mut from: TcpStream, mut to: TcpStream, answers: bool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        while answers && state.stalled.load(Ordering::SeqCst) && !state.ended.load(Ordering::SeqCst)
        {
            thread::sleep(STALL);
        }
        if to
            .write_all(buffer.get(..read).unwrap_or_default())
            .is_err()
        {
            break;
        }
        state
            .passed
            .fetch_add(u64::try_from(read).unwrap_or(0), Ordering::SeqCst);
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
