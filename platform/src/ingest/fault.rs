//! Why a frame is no track. Never decides which frame is one.

use furrow_protocol::down::RefusedReason;

/// Why a frame is no track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Not a frame, or a frame that holds no batch.
    Undecodable,
    /// A version that this build does not know.
    UnknownVersion,
    /// The signature does not fit.
    BadSignature,
    /// Dated too far back.
    TooOld,
    /// Dated ahead.
    Ahead,
    /// From a device that was turned away.
    Revoked,
    /// From a device that the register does not know.
    UnknownDevice,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Undecodable,
        Self::UnknownVersion,
        Self::BadSignature,
        Self::TooOld,
        Self::Ahead,
        Self::Revoked,
        Self::UnknownDevice,
    ];

    /// In the database, on the command line and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::UnknownVersion => "unknown_version",
            Self::BadSignature => "bad_signature",
            Self::TooOld => "too_old",
            Self::Ahead => "ahead",
            Self::Revoked => "revoked",
            Self::UnknownDevice => "unknown_device",
        }
    }

    /// What the device is told.
    #[must_use]
    pub const fn refused(self) -> RefusedReason {
        match self {
            Self::Undecodable => RefusedReason::Undecodable,
            Self::UnknownVersion => RefusedReason::UnknownVersion,
            Self::BadSignature => RefusedReason::BadSignature,
            Self::TooOld => RefusedReason::TooOld,
            Self::Ahead => RefusedReason::Ahead,
            // Neither may deliver: to the device it is the same.
            Self::Revoked | Self::UnknownDevice => RefusedReason::Revoked,
        }
    }
}
