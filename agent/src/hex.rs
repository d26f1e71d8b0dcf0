//! Bytes as hex digits and back. Never guesses.

/// Lower-case hex digits.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of exactly `2 N` hex digits; None for anything else.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut out = [0; N];
    for (byte, at) in out.iter_mut().zip((0..digits.len()).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_there_and_back_and_refuses_the_rest() {
        assert_eq!(decode::<3>(&encode(&[0, 171, 255])), Some([0, 171, 255]));
        assert_eq!(decode::<2>("ABcd"), Some([0xab, 0xcd]));
        for bad in ["0g00", "+100", "000", "00000", "é00"] {
            assert_eq!(decode::<2>(bad), None, "{bad}");
        }
    }
}
