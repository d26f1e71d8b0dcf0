//! The wire between a machine and the platform, which the demo cuts for a while. Never looks at the bytes.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A wire; gone when dropped.
pub struct Wire {
    /// Where the machine's end is.
    pub address: SocketAddr,
    whole: Arc<watch::Sender<bool>>,
    task: JoinHandle<()>,
}

impl Wire {
    /// A whole wire to the platform's machine door.
    ///
    /// Errors: no port.
    pub async fn to(door: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let whole = Arc::new(watch::Sender::new(true));
        let task = tokio::spawn(carry(listener, door, Arc::clone(&whole)));
        Ok(Self {
            address,
            whole,
            task,
        })
    }

    /// Cuts it: connections end, new ones are closed at once.
    pub fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Mends it.
    pub fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn carry(listener: TcpListener, door: SocketAddr, whole: Arc<watch::Sender<bool>>) {
    loop {
        // Without a file handle to spare the machine tries again later, as on any bad link.
        let Ok((near, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        if *whole.borrow() {
            tokio::spawn(join(near, door, whole.subscribe()));
        }
    }
}

async fn join(mut near: TcpStream, door: SocketAddr, mut whole: watch::Receiver<bool>) {
    let Ok(mut far) = TcpStream::connect(door).await else {
        return;
    };
    // A wire that waits to fill its packets would delay every acknowledgement.
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = whole.wait_for(|whole| !whole) => {}
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_cut_ends_what_stands_and_a_mended_wire_carries_again() {
        let door = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let wire = Wire::to(door.local_addr().unwrap()).await.unwrap();
        let mut near = TcpStream::connect(wire.address).await.unwrap();
        let (mut far, _) = door.accept().await.unwrap();
        near.write_all(b"up").await.unwrap();
        let mut heard = [0; 2];
        far.read_exact(&mut heard).await.unwrap();
        wire.cut();
        assert_eq!(near.read(&mut heard).await.unwrap_or(0), 0);
        assert_eq!(far.read(&mut heard).await.unwrap_or(0), 0);
        wire.mend();
        let mut again = TcpStream::connect(wire.address).await.unwrap();
        let (mut far, _) = door.accept().await.unwrap();
        far.write_all(b"dn").await.unwrap();
        again.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"dn");
    }
}
