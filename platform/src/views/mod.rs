//! JSON forms that more than one door shows. Never holds a rule.

pub mod facts;
pub mod outline;
pub mod texts;

/// A phone as logs may show it: `+86138****0000`.
#[must_use]
pub fn masked(phone: &str) -> String {
    let count = phone.chars().count();
    phone
        .chars()
        .enumerate()
        .map(|(i, c)| {
            if i + 8 >= count && i + 4 < count {
                '*'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_phone_is_masked_in_its_middle() {
        assert_eq!(super::masked("+8613812345678"), "+86138****5678");
    }
}
