//! Double entry: accounts, balanced transactions, what an order's step becomes on them, deposits, and the split of a refund over payments. Never holds a balance: the shell's database does.

pub mod account;
pub mod deposit;
pub mod posting;
pub mod refund;
pub mod txn;
