//! Proves that an outside broker lets no device write what only the platform may: by trying it. Never believes a broker's answer, only what is delivered.

use std::time::Duration;

use furrow_protocol::{
    frame::Device,
    topic::{Lane, Topic},
};
use rumqttc::{
    AsyncClient, ClientError, ConnectReturnCode, ConnectionError, Event, MqttOptions, Packet, QoS,
    SubscribeFilter,
};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    bus::live_topic,
    outside::{OutsideError, OutsideSettings},
};

/// How long each step may take.
const STEP: Duration = Duration::from_secs(10);
/// How long a message that must not come may still come after one that must.
const GRACE: Duration = Duration::from_millis(500);
/// A number that stands for another device. It belongs to nobody: registers begin at 1.
const OTHER: Device = Device(u32::MAX);

/// One who shows no credential.
const NOBODY: &str = "one without a name";

/// A device's credential at the broker, only for this proof.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Its number.
    pub device: Device,
    /// Its password at the broker.
    pub password: String,
}

impl Probe {
    /// The credential of a device by its number.
    #[must_use]
    pub const fn new(device: u32, password: String) -> Self {
        Self {
            device: Device(device),
            password,
        }
    }
}

/// Why the broker must not be used.
#[derive(Debug, Error)]
pub enum AclError {
    /// The settings.
    #[error("mqtt")]
    Settings(#[from] OutsideError),
    /// One of us cannot connect.
    #[error("{who} cannot connect to the broker")]
    Connect {
        /// Platform or device.
        who: &'static str,
        /// Why.
        #[source]
        source: Box<ConnectionError>,
    },
    /// A step took too long.
    #[error("the broker does not answer: {0}")]
    Silent(&'static str),
    /// A request could not be made.
    #[error("the client is gone")]
    Client(#[from] ClientError),
    /// What the platform writes is delivered to nobody, so nothing is proven.
    #[error("what the platform writes to {0} is not delivered: its credential must be able to")]
    PlatformMayNot(String),
    /// The hole.
    #[error("{who} may write {topic}: only the platform may; correct the broker's access rules")]
    MayWrite {
        /// A device, or one without a name.
        who: &'static str,
        /// What it has written.
        topic: String,
    },
    /// The other hole.
    #[error("a device may read {0}: correct the broker's access rules")]
    MayRead(String),
}

fn topic(device: Device, lane: Lane) -> String {
    Topic { device, lane }.to_string()
}

/// Tries, with a device's credential and without any, to write `down` of itself and of another, `up`
/// of another and a position, and to read `down` of another.
///
/// # Errors
///
/// [`AclError`]: something is allowed that must not be, or nothing could be proven.
pub async fn prove_acl(settings: &OutsideSettings, probe: &Probe) -> Result<(), AclError> {
    let own_down = topic(probe.device, Lane::Down);
    let other_down = topic(OTHER, Lane::Down);
    let forbidden = [
        own_down.clone(),
        other_down.clone(),
        topic(OTHER, Lane::Up),
        live_topic(uuid::Uuid::max()),
    ];
    let options = settings.options(&format!("{}-check", settings.client_id), settings.login())?;
    let mut platform = Peer::connect("the platform", options).await?;
    platform.listen(&forbidden).await?;
    let name = probe.device.to_string();
    let login = Some((name.as_str(), probe.password.as_str()));
    let options = settings.options(&format!("furrow-{name}"), login)?;
    let mut device = Peer::connect("a device", options).await?;
    device
        .listen(&[own_down.clone(), other_down.clone()])
        .await?;

    let own = own_down.as_str();
    device_tries(&mut platform, &mut device, &forbidden, own, &other_down).await?;
    device.leave();
    let nameless = settings.options(&format!("furrow-{name}"), None)?;
    match Peer::connect(NOBODY, nameless).await {
        Ok(mut nobody) => {
            writes_in_vain(&mut platform, &mut nobody, NOBODY, &forbidden, own).await?;
            nobody.leave();
        }
        // Not let in at all, as it should be.
        Err(AclError::Connect { .. }) => {}
        Err(error) => return Err(error),
    }
    platform.leave();
    Ok(())
}

async fn device_tries(
    platform: &mut Peer,
    device: &mut Peer,
    forbidden: &[String],
    own_down: &str,
    other_down: &str,
) -> Result<(), AclError> {
    // First that what is allowed arrives: silence alone would prove nothing.
    platform.write(own_down, "platform 1").await?;
    if !heard_by_either(platform, device, own_down, "platform 1").await {
        return Err(AclError::PlatformMayNot(own_down.to_owned()));
    }
    platform.write(other_down, "platform 2").await?;
    writes_in_vain(platform, device, "a device", forbidden, own_down).await?;
    if device.has_heard(other_down, "platform 2") {
        return Err(AclError::MayRead(other_down.to_owned()));
    }
    Ok(())
}

/// `who` writes all of `forbidden`; none of it may be delivered before what the platform writes after.
async fn writes_in_vain(
    platform: &mut Peer,
    who: &mut Peer,
    name: &'static str,
    forbidden: &[String],
    control: &str,
) -> Result<(), AclError> {
    for (n, topic) in forbidden.iter().enumerate() {
        // A broker may put a writer out for trying: then nothing of it is written, which is well.
        let _ = who.write(topic, &format!("{name} {n}")).await;
        let after = format!("after {name} {n}");
        platform.write(control, &after).await?;
        if !heard_by_either(platform, who, control, &after).await {
            return Err(AclError::PlatformMayNot(control.to_owned()));
        }
    }
    let end = Instant::now() + GRACE;
    while platform.hear(end).await || who.hear(end).await {}
    for (n, topic) in forbidden.iter().enumerate() {
        let text = format!("{name} {n}");
        if platform.has_heard(topic, &text) || who.has_heard(topic, &text) {
            return Err(AclError::MayWrite {
                who: name,
                topic: topic.clone(),
            });
        }
    }
    Ok(())
}

async fn heard_by_either(one: &mut Peer, other: &mut Peer, topic: &str, text: &str) -> bool {
    let end = Instant::now() + STEP;
    while Instant::now() < end {
        if one.has_heard(topic, text) || other.has_heard(topic, text) {
            return true;
        }
        let soon = Instant::now() + Duration::from_millis(50);
        one.hear(soon).await;
        other.hear(soon).await;
    }
    false
}

/// One connection to the broker, and all that it has heard.
struct Peer {
    client: AsyncClient,
    events: mpsc::Receiver<Packet>,
    loop_: JoinHandle<()>,
    heard: Vec<(String, Vec<u8>)>,
    acked: usize,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.loop_.abort();
    }
}

impl Peer {
    async fn connect(who: &'static str, options: MqttOptions) -> Result<Self, AclError> {
        let (client, mut events) = AsyncClient::new(options, 64);
        let first = tokio::time::timeout(STEP, events.poll()).await;
        match first {
            Err(_) => return Err(AclError::Silent("CONNECT")),
            Ok(Err(source)) => {
                return Err(AclError::Connect {
                    who,
                    source: Box::new(source),
                });
            }
            Ok(Ok(Event::Incoming(Packet::ConnAck(ack))))
                if ack.code == ConnectReturnCode::Success => {}
            Ok(Ok(_)) => return Err(AclError::Silent("CONNACK")),
        }
        let (sender, receiver) = mpsc::channel(256);
        let acks = client.clone();
        let loop_ = tokio::spawn(async move {
            // To the first error: one that was put out does not come back.
            while let Ok(event) = events.poll().await {
                let Event::Incoming(packet) = event else {
                    continue;
                };
                if let Packet::Publish(publish) = &packet {
                    let _ = acks.try_ack(publish);
                }
                if sender.send(packet).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            client,
            events: receiver,
            loop_,
            heard: Vec::new(),
            acked: 0,
        })
    }

    /// Subscribes; a broker may refuse some, which the controls show.
    async fn listen(&mut self, topics: &[String]) -> Result<(), AclError> {
        let filters = topics
            .iter()
            .map(|t| SubscribeFilter::new(t.clone(), QoS::AtLeastOnce));
        self.client.subscribe_many(filters).await?;
        self.acknowledged("SUBSCRIBE").await
    }

    async fn write(&mut self, topic: &str, text: &str) -> Result<(), AclError> {
        self.client
            .publish(topic, QoS::AtLeastOnce, false, text)
            .await?;
        self.acknowledged("PUBLISH").await
    }

    async fn acknowledged(&mut self, what: &'static str) -> Result<(), AclError> {
        let (end, before) = (Instant::now() + STEP, self.acked);
        while self.acked == before {
            if !self.hear(end).await {
                return Err(AclError::Silent(what));
            }
        }
        Ok(())
    }

    /// Takes one packet; false when none comes until `end`, or none any more.
    async fn hear(&mut self, end: Instant) -> bool {
        match timeout_at(end, self.events.recv()).await {
            Ok(Some(Packet::Publish(publish))) => {
                self.heard.push((publish.topic, publish.payload.to_vec()));
                true
            }
            Ok(Some(Packet::PubAck(_) | Packet::SubAck(_))) => {
                self.acked += 1;
                true
            }
            Ok(Some(_)) => true,
            Ok(None) | Err(_) => false,
        }
    }

    fn has_heard(&self, topic: &str, text: &str) -> bool {
        self.heard
            .iter()
            .any(|(t, bytes)| t == topic && bytes == text.as_bytes())
    }

    fn leave(&self) {
        let _ = self.client.try_disconnect();
    }
}
