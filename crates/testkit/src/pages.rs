//! The commands that a page of the documentation shows, to be run as they stand there.

/// The blocks of a page whose fence says `sh MARK`, one after the other.
///
/// # Panics
///
/// When the page has none.
pub fn commands(page: &str, mark: &str) -> String {
    let fence = format!("```sh {mark}\n");
    let blocks: Vec<&str> = page
        .split(&fence)
        .skip(1)
        .map(|block| block.split("```").next().unwrap_or(block))
        .collect();
    assert!(!blocks.is_empty(), "no commands marked `{mark}` are on the page");
    blocks.concat()
}
