//! The machine door of a platform: the gate, or an outside broker in its place. Knows how they are set up, not what they do.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, bail};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    app::{authority::Authority, devices::unhex},
    config::{self, Settings},
    ids,
    ingest::arrival::{Arrival, Arrivals},
    mqtt::{
        acl::{Probe, prove_acl},
        bus::Bus,
        cached::CachedRegister,
        gate::{Gate, GateSettings},
        health::Said,
        live::Told,
        operator::Operator,
        outside::{Outside, OutsideSettings},
        presence::Presence,
        tls::TlsFiles,
    },
};

/// An open machine door.
pub(super) struct Machines {
    door: Door,
    /// Who comes and goes.
    pub(super) presence: Arc<Presence>,
    /// Where positions are told, if anybody may listen.
    pub(super) told: Option<Told>,
    /// This process's bus.
    pub(super) bus: Option<Arc<Bus>>,
    /// Where plain MQTT listens.
    pub(super) plain: Option<SocketAddr>,
    /// Where MQTT over TLS listens.
    pub(super) tls: Option<SocketAddr>,
}

enum Door {
    Gate(Box<Gate>),
    Outside {
        outside: Box<Outside>,
        heard: mpsc::Receiver<Arrival>,
        register: CachedRegister,
        arrivals: Arrivals,
    },
}

impl Machines {
    /// Opens the gate, or proves an outside broker and gets ready to use it.
    ///
    /// Errors: a setting, an address, or a broker whose access rules have a hole.
    pub(super) async fn open(
        settings: &Settings,
        authority: &Authority,
        register: CachedRegister,
        arrivals: Arrivals,
        states: mpsc::Sender<Said>,
    ) -> anyhow::Result<Self> {
        if settings.mqtt.url.is_some() {
            return Self::outside(settings, register, arrivals, states).await;
        }
        let gate = Gate::bind(
            gate_settings(settings, authority)?,
            Arc::new(register),
            arrivals,
            states,
        )
        .await?;
        let operators = operators(settings)?;
        let (gate, bus) = if operators.is_empty() {
            (gate, None)
        } else {
            let bus = Arc::new(Bus::new().context("bus")?);
            (gate.with_operators(operators, Arc::clone(&bus)), Some(bus))
        };
        Ok(Self {
            presence: gate.presence(),
            told: bus.clone().map(Told::Bus),
            bus,
            plain: gate.plain_addr(),
            tls: gate.tls_addr(),
            door: Door::Gate(Box::new(gate)),
        })
    }

    async fn outside(
        settings: &Settings,
        register: CachedRegister,
        arrivals: Arrivals,
        states: mpsc::Sender<Said>,
    ) -> anyhow::Result<Self> {
        prove_outside(settings).await?;
        let bus = Arc::new(Bus::new().context("bus")?);
        let (to_admission, heard) = mpsc::channel(settings.ingest.queue);
        let (outside, broker) = Outside::new(
            outside_settings(&settings.mqtt)?,
            to_admission,
            states,
            Arc::clone(&bus),
        )?;
        Ok(Self {
            presence: outside.presence(),
            told: Some(Told::Broker(broker)),
            bus: Some(bus),
            plain: None,
            tls: None,
            door: Door::Outside {
                outside: Box::new(outside),
                heard,
                register,
                arrivals,
            },
        })
    }

    /// Works until `shutdown`.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        match self.door {
            Door::Gate(gate) => gate.run(shutdown).await,
            Door::Outside {
                outside,
                heard,
                register,
                arrivals,
            } => {
                tokio::join!(outside.run(shutdown), register.admit(heard, arrivals));
            }
        }
    }
}

/// Proves that an outside broker, where there is one, lets no device write what only the platform may.
///
/// Errors: a setting, or a broker that must not be used.
pub async fn prove_outside(settings: &Settings) -> anyhow::Result<()> {
    if settings.mqtt.url.is_none() {
        return Ok(());
    }
    let Some(probe) = &settings.mqtt.probe else {
        bail!("mqtt.probe must be set: with a device's credential the broker's rules are proven")
    };
    let password = config::secret(&probe.password_file).context("mqtt.probe.password_file")?;
    let probe = Probe::new(probe.device, password);
    prove_acl(&outside_settings(&settings.mqtt)?, &probe)
        .await
        .context("mqtt.url")
}

fn outside_settings(mqtt: &config::Mqtt) -> anyhow::Result<OutsideSettings> {
    let password = match &mqtt.password_file {
        Some(path) => Some(config::secret(path).context("mqtt.password_file")?),
        None => None,
    };
    Ok(OutsideSettings {
        url: mqtt.url.clone().unwrap_or_default(),
        username: mqtt.username.clone(),
        password,
        ca_file: mqtt.ca_file.clone(),
        share_group: mqtt.share_group.clone(),
        client_id: format!("furrow-platform-{:016x}", u64::from_be_bytes(ids::secret())),
    })
}

fn operators(settings: &Settings) -> anyhow::Result<Vec<Operator>> {
    let operators = settings.mqtt.operators.iter().map(|told| {
        let operator = Operator {
            name: told.name.clone(),
            token_sha256: unhex(told.token_sha256.as_bytes())
                .with_context(|| format!("{}: token_sha256 must be 64 hex digits", told.name))?,
            filters: told.filters.clone(),
        };
        if !operator.is_lawful() {
            bail!(
                "{}: filters that the bus does not have, or too many",
                told.name
            );
        }
        Ok(operator)
    });
    operators
        .collect::<anyhow::Result<_>>()
        .context("mqtt.operators")
}

/// The files of the doors' TLS, as the doors take them.
pub(super) fn tls_files(authority: &Authority) -> TlsFiles {
    let files = authority.files();
    TlsFiles {
        authority: files.authority,
        certificate: files.certificate,
        key: files.key,
    }
}

fn gate_settings(settings: &Settings, authority: &Authority) -> anyhow::Result<GateSettings> {
    let tls = match settings.mqtt.tls_listen {
        Some(address) => Some((address, tls_files(authority).for_machines()?)),
        None => None,
    };
    Ok(GateSettings {
        listen: settings.mqtt.listen,
        tls,
        max_connections: settings.mqtt.max_connections,
        max_per_address: settings.mqtt.max_per_address,
    })
}
