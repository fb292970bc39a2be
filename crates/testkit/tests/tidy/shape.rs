//! The shape of the code in figures: sizes, circles, names, imports, reasons. `make shape` prints
//! them; what was reached is held here.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    FnArg, ImplItem, Item, ItemUse, Signature, TraitItem, UseTree, Visibility,
    spanned::Spanned as _,
};

use super::{Source, circles, crates, demand, shipped_lines, sources_of};

/// Types whose names are one word, in percent of all.
const MOST_ONE_WORD: usize = 25;
/// Names of public types that stand for something in more than one crate.
const MOST_SHARED: usize = 22;
/// Functions with two neighbouring parameters of one bare type, per thousand.
const MOST_NEIGHBOURS: usize = 9;
/// Lines that say why, per ten thousand lines of code.
const FEWEST_REASONS: usize = 200;
/// Lines of a crate.
const MOST_LINES: usize = 16_000;
/// Imports, in percent of a crate's lines of code.
const MOST_IMPORTS: usize = 12;

/// Words that say nothing beside another one.
const EMPTY_WORDS: [&str; 4] = ["Data", "Info", "Helper", "Thing"];

/// Names that a reader would have to learn. They don't come back.
const LEARNED: &str = "Again Bell Board Care Cast Counterparts Course Deed Desk Ear Errand Ground \
    Growth Lacking Lead Lines Moment Pulse Purse Ripeness Shelf Surroundings Teller Then When Wishes \
    Yard";

/// What is counted of one crate or of all.
#[derive(Default)]
struct Shape {
    files: usize,
    lines: usize,
    code: usize,
    imports: usize,
    reasons: usize,
    /// Lines of each function.
    functions: Vec<usize>,
    /// Those with two neighbouring parameters of one bare type.
    neighbours: Vec<String>,
    types: Vec<String>,
    public_types: BTreeSet<String>,
    /// `use X as Y` of our own types.
    renamed: Vec<String>,
}

impl Shape {
    fn of(sources: &[Source]) -> Self {
        let mut shape = Self::default();
        for source in sources.iter().filter(|source| !source.path.ends_with("/tests.rs")) {
            shape.add(source);
        }
        shape
    }

    fn add(&mut self, source: &Source) {
        let lines = shipped_lines(&source.path, &source.text);
        let lines: Vec<&str> = lines.into_iter().map(|(_, line)| line.trim()).collect();
        self.files += 1;
        self.lines += source.text.lines().count();
        self.code +=
            lines.iter().filter(|line| !line.is_empty() && !line.starts_with("//")).count();
        self.reasons += lines.iter().filter(|line| is_reason(line)).count();
        let file = syn::parse_file(&source.text).unwrap();
        self.add_items(&source.path, &file.items);
    }

    fn add_items(&mut self, path: &str, items: &[Item]) {
        for item in items {
            match item {
                Item::Struct(one) => self.add_type(&one.vis, &one.ident),
                Item::Enum(one) => self.add_type(&one.vis, &one.ident),
                Item::Trait(one) => {
                    self.add_type(&one.vis, &one.ident);
                    for item in &one.items {
                        if let TraitItem::Fn(one) = item {
                            self.add_function(path, &one.sig, one.span());
                        }
                    }
                }
                Item::Type(one) => self.add_type(&one.vis, &one.ident),
                Item::Fn(one) => self.add_function(path, &one.sig, one.span()),
                Item::Impl(one) => {
                    for item in &one.items {
                        if let ImplItem::Fn(one) = item {
                            self.add_function(path, &one.sig, one.span());
                        }
                    }
                }
                Item::Mod(one) if !circles::is_for_tests(&one.attrs) => {
                    let inner = one.content.as_ref().map(|(_, items)| items.as_slice());
                    self.add_items(path, inner.unwrap_or_default());
                }
                Item::Use(one) => self.add_use(path, one),
                Item::Const(_)
                | Item::ExternCrate(_)
                | Item::ForeignMod(_)
                | Item::Macro(_)
                | Item::Mod(_)
                | Item::Static(_)
                | Item::TraitAlias(_)
                | Item::Union(_)
                | Item::Verbatim(_)
                | _ => {}
            }
        }
    }

    fn add_type(&mut self, visible: &Visibility, name: &syn::Ident) {
        self.types.push(name.to_string());
        if matches!(visible, Visibility::Public(_)) {
            self.public_types.insert(name.to_string());
        }
    }

    fn add_function(&mut self, path: &str, signature: &Signature, span: proc_macro2::Span) {
        self.functions.push(span.end().line + 1 - signature.span().start().line);
        let bare: Vec<Option<String>> = signature.inputs.iter().map(bare_type).collect();
        if bare.windows(2).any(|pair| pair[0].is_some() && pair[0] == pair[1]) {
            self.neighbours.push(format!("{path}: {}", signature.ident));
        }
    }

    fn add_use(&mut self, path: &str, item: &ItemUse) {
        let span = item.span();
        self.imports += span.end().line + 1 - span.start().line;
        if let UseTree::Path(start) = &item.tree {
            let first = start.ident.to_string();
            let is_ours = ["crate", "super", "self"].contains(&first.as_str())
                || first.starts_with("unspent");
            if is_ours {
                self.renamed.extend(renamed(&item.tree).map(|name| format!("{path}: {name}")));
            }
        }
    }

    fn one_word(&self) -> usize {
        self.types.iter().filter(|name| words(name) < 2).count()
    }
}

/// A line that says why; what is cut off by a tool's mark isn't one.
fn is_reason(line: &str) -> bool {
    line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!")
}

/// Words of a name, without those that say nothing.
fn words(name: &str) -> usize {
    let letters: Vec<char> = name.chars().collect();
    let begins = |at: usize| {
        let is_upper = letters[at].is_uppercase();
        let after_lower = at > 0 && !letters[at - 1].is_uppercase();
        let before_lower = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        at == 0 || is_upper && (after_lower || before_lower)
    };
    let starts: Vec<usize> = (0..letters.len()).filter(|at| begins(*at)).collect();
    let ends = starts.iter().skip(1).copied().chain([letters.len()]);
    let words = starts.iter().zip(ends).map(|(start, end)| letters[*start..end].iter().collect());
    words.filter(|word: &String| !EMPTY_WORDS.contains(&word.as_str())).count()
}

/// `use a::Name as Other`, a type of ours under another name. Where nothing but the traits' methods
/// is meant, the name is `_`.
fn renamed(tree: &UseTree) -> Box<dyn Iterator<Item = String> + '_> {
    match tree {
        UseTree::Path(path) => renamed(&path.tree),
        UseTree::Group(group) => Box::new(group.items.iter().flat_map(renamed)),
        UseTree::Rename(one) => {
            let (name, other) = (one.ident.to_string(), one.rename.to_string());
            let is_type = name.starts_with(char::is_uppercase) && other != "_";
            Box::new(is_type.then(|| format!("{name} as {other}")).into_iter())
        }
        UseTree::Name(_) | UseTree::Glob(_) => Box::new(std::iter::empty()),
    }
}

/// A parameter's type if it says nothing about what it is: a number, a text, bytes.
fn bare_type(parameter: &FnArg) -> Option<String> {
    let FnArg::Typed(parameter) = parameter else { return None };
    let ty = &parameter.ty;
    let text = quote::quote!(#ty).to_string().replace(' ', "");
    let inner = text.strip_prefix("Option<").and_then(|text| text.strip_suffix('>'));
    let known = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64", "bool", "char", "String", "&str", "&[u8]", "Vec<u8>", "[u8;32]", "&[u8;32]",
    ];
    known.contains(&inner.unwrap_or(&text)).then(|| text.clone())
}

/// Types that a person would have to learn.
fn learned(shape: &Shape) -> Vec<String> {
    let is_learned = |name: &&String| LEARNED.split_whitespace().any(|word| word == name.as_str());
    shape.types.iter().filter(is_learned).cloned().collect()
}

fn per(part: usize, whole: usize, of: usize) -> usize {
    (part * of).checked_div(whole).unwrap_or_default()
}

/// In order, the value below which that many percent are.
fn percentile(sorted: &[usize], percent: usize) -> usize {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or_default()
}

fn row(name: &str, shape: &mut Shape, circle: &str) -> String {
    shape.functions.sort_unstable();
    let functions = &shape.functions;
    let longest = functions.last().copied().unwrap_or_default();
    let reasons = per(shape.reasons, shape.code, 10_000);
    format!(
        "| {name} | {} | {} | {} | {}·{}·{longest} | {circle} | {} % | .{reasons:04} | {} of {} | {} |",
        shape.lines,
        shape.code,
        shape.files,
        percentile(functions, 50),
        percentile(functions, 90),
        per(shape.imports, shape.code, 100),
        shape.one_word(),
        shape.types.len(),
        shape.neighbours.len(),
    )
}

/// Public names that more than one crate gives to a type.
fn shared(shapes: &BTreeMap<String, Shape>) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, shape) in shapes {
        for public in &shape.public_types {
            places.entry(public).or_default().push(name);
        }
    }
    let twice = places.into_iter().filter(|(_, crates)| crates.len() > 1);
    twice.map(|(name, crates)| format!("{name}: {}", crates.join(", "))).collect()
}

/// Every crate that ships.
fn shapes() -> BTreeMap<String, Shape> {
    let shipped = crates().into_iter().filter(|name| name != "testkit");
    shipped.map(|name| (name.clone(), Shape::of(&sources_of(&name, "src")))).collect()
}

#[test]
fn the_shape_holds_what_was_reached() {
    let mut shapes = shapes();
    let (mut all, mut findings) = (Shape::default(), Vec::new());
    println!(
        "| crate | lines | code | files | function p50·p90·max | circle | imports | why | one-word \
         types | neighbours |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for (name, shape) in &mut shapes {
        println!("{}", row(name, shape, &format!("{} %", circles::percent(name))));
        if shape.lines > MOST_LINES {
            findings.push(format!("{name}: {} lines", shape.lines));
        }
        let imports = per(shape.imports, shape.code, 100);
        if shape.lines > 1_000 && imports > MOST_IMPORTS {
            findings.push(format!("{name}: {imports} % of the code are imports"));
        }
        findings.extend(learned(shape).into_iter().map(|name| format!("{name} says nothing")));
        all.files += shape.files;
        all.lines += shape.lines;
        all.code += shape.code;
        all.imports += shape.imports;
        all.reasons += shape.reasons;
        all.functions.extend(&shape.functions);
        all.neighbours.extend(shape.neighbours.iter().cloned());
        all.types.extend(shape.types.iter().cloned());
        all.renamed.extend(shape.renamed.iter().cloned());
    }
    println!("{}", row("all", &mut all, ""));
    let shared = shared(&shapes);
    println!("\npublic names of several crates: {}\n  {}", shared.len(), shared.join("\n  "));
    println!("\nneighbours of one bare type:\n  {}", all.neighbours.join("\n  "));
    println!("\nour own types under other names:\n  {}", all.renamed.join("\n  "));
    let mut most = |what: &str, found: usize, most: usize| {
        if found > most {
            findings.push(format!("{what}: {found}, at most {most}"));
        }
    };
    most("one-word types, %", per(all.one_word(), all.types.len(), 100), MOST_ONE_WORD);
    most("public names of several crates", shared.len(), MOST_SHARED);
    let neighbours = per(all.neighbours.len(), all.functions.len(), 1_000);
    most("neighbours of one bare type, per mille", neighbours, MOST_NEIGHBOURS);
    most("our own types under other names", all.renamed.len(), 0);
    let reasons = per(all.reasons, all.code, 10_000);
    if reasons < FEWEST_REASONS {
        findings.push(format!("lines that say why: {reasons} in 10,000"));
    }
    demand("the shape was better before", &findings);
}

#[test]
fn each_figure_of_the_shape_can_fail() {
    let text = "use crate::a::Thing as Other;\nuse std::fmt::Write as _;\n// Why.\n/// Doc.\n\
                pub struct Desk;\nstruct TwoWords;\nstruct OneData;\n\
                fn f(a: i64, b: i64, c: &str) {}\nimpl Desk { fn g(&self, a: u8, b: i8) {} }\n\
                #[cfg(test)]\nmod tests {\n    struct Unseen;\n}\n";
    let shape = Shape::of(&[Source { path: "a.rs".into(), text: text.into() }]);
    assert_eq!(shape.types, ["Desk", "TwoWords", "OneData"]);
    assert_eq!((shape.one_word(), learned(&shape)), (2, vec!["Desk".to_owned()]));
    assert_eq!(shape.neighbours, ["a.rs: f"]);
    assert_eq!(shape.renamed, ["a.rs: Thing as Other"]);
    assert_eq!((shape.reasons, shape.imports), (1, 2));
    assert_eq!((words("TxId"), words("UTXOSet"), words("Coin"), words("CoinInfo")), (2, 2, 1, 1));
    let two = BTreeMap::from([
        ("a".to_owned(), Shape::of(&[Source { path: "a.rs".into(), text: text.into() }])),
        ("b".to_owned(), Shape::of(&[Source { path: "b.rs".into(), text: text.into() }])),
    ]);
    assert_eq!(shared(&two), ["Desk: a, b"]);
}
