//! Which violations are the same.

/// What a violation has in common with others of its kind: its words without numbers, quotations and records, up to the first
/// sign that divides a sentence.
#[must_use]
pub fn kind_of(violation: &str) -> String {
    let (mut kind, mut depth, mut is_quoted) = (String::new(), 0_u32, false);
    for letter in violation.lines().next().unwrap_or_default().chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 || letter.is_ascii_digit() => {}
            ',' | ';' | '(' => break,
            _ => kind.push(letter),
        }
    }
    kind.trim().to_owned()
}
