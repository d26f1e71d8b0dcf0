//! Who acts on an order, and as what. Party conflicts are judged by account and organisation, never by the acting role.

use serde::{Deserialize, Serialize};

use super::{Order, refusal::Refusal};
use crate::id::{AccountId, OrganisationId};

/// As what somebody acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Who rents.
    Renter,
    /// Owner or manager of the machine's organisation.
    Owner,
    /// Its driver: start, finish, pauses, photos, notes.
    Operator,
    /// The operator's staff.
    Admin,
    /// The clock.
    System,
    /// A payment provider, verified.
    Provider,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Renter,
        Self::Owner,
        Self::Operator,
        Self::Admin,
        Self::System,
        Self::Provider,
    ];
}

/// Somebody who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// As what.
    pub role: Role,
    /// Who; none for the clock and providers.
    pub account: Option<AccountId>,
    /// Organisations that this account belongs to, in whatever function.
    pub organisations: Vec<OrganisationId>,
    /// Named permissions of an admin.
    pub permissions: Vec<String>,
}

impl Actor {
    /// The clock.
    #[must_use]
    pub const fn system() -> Self {
        Self::nobody(Role::System)
    }

    /// A payment provider.
    #[must_use]
    pub const fn provider() -> Self {
        Self::nobody(Role::Provider)
    }

    const fn nobody(role: Role) -> Self {
        Self {
            role,
            account: None,
            organisations: vec![],
            permissions: vec![],
        }
    }

    /// Whether an admin has a permission. Everybody else has none.
    #[must_use]
    pub fn may(&self, permission: &str) -> bool {
        self.role == Role::Admin && self.permissions.iter().any(|p| p == permission || p == "*")
    }

    /// Whether the actor is what it says, on this order.
    ///
    /// # Errors
    ///
    /// `not_a_party` for a stranger (shown as not found); `self_dealing` for one who is on both sides;
    /// `conflict_of_interest` for an admin who is on either.
    pub fn check(&self, order: &Order) -> Result<(), Refusal> {
        let rents = self.account == Some(order.renter);
        let owns = self.organisations.contains(&order.organisation);
        match self.role {
            Role::System | Role::Provider => Ok(()),
            Role::Renter if rents && owns => Err(Refusal::SelfDealing),
            Role::Owner | Role::Operator if rents && owns => Err(Refusal::SelfDealing),
            Role::Renter if rents => Ok(()),
            Role::Owner | Role::Operator if owns => Ok(()),
            Role::Renter | Role::Owner | Role::Operator => Err(Refusal::NotAParty),
            Role::Admin if rents || owns => Err(Refusal::ConflictOfInterest),
            Role::Admin => Ok(()),
        }
    }
}
