//! Who is signed in: an account, its organisations and permissions, read from the database for each request. Never trusted from a token.

use std::net::IpAddr;

use furrow_domain::{
    id::{AccountId, OrganisationId},
    order::actor::{Actor, Role},
};
use uuid::Uuid;

use super::fault::{Fault, Sort};

/// What somebody is in an organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Driver: start, finish, pauses, photos.
    Operator,
    /// Runs it.
    Manager,
    /// Owns it.
    Owner,
}

impl Function {
    /// The name in columns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Manager => "manager",
            Self::Owner => "owner",
        }
    }

    /// The function of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Operator, Self::Manager, Self::Owner]
            .into_iter()
            .find(|function| function.name() == name)
    }
}

/// Where a request came from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// By which the logs know the request.
    pub trace_id: String,
    /// The caller's address; none from the command line.
    pub address: Option<IpAddr>,
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Who {
    /// The account.
    pub account: AccountId,
    /// Its organisations.
    pub organisations: Vec<(OrganisationId, Function)>,
    /// Its permissions as staff; empty for everybody else.
    pub permissions: Vec<String>,
    /// By which the logs know the request.
    pub trace_id: String,
    /// From where; none from the command line.
    pub address: Option<IpAddr>,
}

impl Who {
    /// An account without any right, for what it does before it is signed in.
    #[must_use]
    pub fn plain(account: AccountId, origin: &Origin) -> Self {
        Self {
            account,
            organisations: vec![],
            permissions: vec![],
            trace_id: origin.trace_id.clone(),
            address: origin.address,
        }
    }

    /// Another account than one's own.
    ///
    /// # Errors
    ///
    /// `conflict_of_interest`.
    pub fn need_other(&self, account: Uuid) -> Result<(), Fault> {
        if self.account.0 == account {
            return Err(Fault::new(
                Sort::Forbidden,
                "conflict_of_interest",
                "staff does not decide about itself",
            ));
        }
        Ok(())
    }

    /// Its function in an organisation.
    #[must_use]
    pub fn function(&self, organisation: OrganisationId) -> Option<Function> {
        let own = self
            .organisations
            .iter()
            .find(|(id, _)| *id == organisation);
        own.map(|(_, function)| *function)
    }

    /// All its organisations.
    #[must_use]
    pub fn all_organisations(&self) -> Vec<OrganisationId> {
        self.organisations.iter().map(|(id, _)| *id).collect()
    }

    /// Those that it runs.
    #[must_use]
    pub fn runs(&self) -> Vec<OrganisationId> {
        let runs = |(_, function): &&(OrganisationId, Function)| *function >= Function::Manager;
        self.organisations
            .iter()
            .filter(runs)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Whether it is staff with a permission.
    #[must_use]
    pub fn may(&self, permission: &str) -> bool {
        self.permissions.iter().any(|p| p == permission || p == "*")
    }

    /// Staff with a permission, or a plain "nothing here".
    ///
    /// # Errors
    ///
    /// `not_found`.
    pub fn need(&self, permission: &str) -> Result<(), Fault> {
        if self.may(permission) {
            Ok(())
        } else {
            Err(Fault::not_found())
        }
    }

    /// Whether it runs an organisation, or a plain "nothing here".
    ///
    /// # Errors
    ///
    /// `not_found`.
    pub fn need_run(&self, organisation: OrganisationId) -> Result<(), Fault> {
        if self.runs().contains(&organisation) {
            Ok(())
        } else {
            Err(Fault::not_found())
        }
    }

    /// As whom it acts on an order of this organisation. An operator's driver is none of its managers.
    ///
    /// # Errors
    ///
    /// `forbidden` for a role that it does not have.
    pub fn acting(&self, role: Role, organisation: OrganisationId) -> Result<Actor, Fault> {
        let function = self.function(organisation);
        let role = match role {
            Role::Owner if function == Some(Function::Operator) => Role::Operator,
            Role::Admin if self.permissions.is_empty() => return Err(Fault::not_found()),
            Role::System | Role::Provider => {
                return Err(Fault::new(
                    Sort::Forbidden,
                    "forbidden",
                    "nobody acts as that",
                ));
            }
            role @ (Role::Renter | Role::Owner | Role::Operator | Role::Admin) => role,
        };
        Ok(Actor {
            role,
            account: Some(self.account),
            organisations: self.all_organisations(),
            permissions: if role == Role::Admin {
                self.permissions.clone()
            } else {
                vec![]
            },
        })
    }
}
