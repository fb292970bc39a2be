//! How much of each crate is one circle: modules of which each needs all others, directly or not.
//!
//! A module is a file. It needs another one when a path in it leads to an item of that file: through
//! `use`, through re-exports, in signatures, bodies and macros' arguments. Tests don't count. Circles
//! are found by Tarjan's algorithm.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Item, ItemMod, UseTree};

use super::{Source, crates, folders, sources_of};

/// The largest circle that a crate of over [`COUNTED_LINES`] may have, in percent of its lines.
const MOST: usize = 33;
const COUNTED_LINES: usize = 1_000;

/// `["api", "error"]`; empty for the crate's root.
type ModulePath = Vec<String>;

/// One file with what it names.
#[derive(Default)]
struct Module {
    path: String,
    lines: usize,
    items: BTreeSet<String>,
    /// Names that `use` brings in, with what they stand for.
    aliases: BTreeMap<String, Vec<String>>,
    /// Modules whose names `use …::*` brings in.
    globs: Vec<Vec<String>>,
    /// Every path that stands somewhere in it.
    paths: BTreeSet<Vec<String>>,
}

/// The modules of a crate.
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    fn of(files: &[(ModulePath, Source)]) -> Self {
        let read = |(module, source): &(ModulePath, Source)| (module.clone(), read(source));
        Self(files.iter().map(read).collect())
    }

    /// The module in whose file a path ends, as it is written in `from`.
    fn target(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        if depth > 16 {
            return None;
        }
        match first.as_str() {
            "crate" => self.inside(&Vec::new(), rest, depth),
            "self" => self.inside(from, rest, depth),
            "super" => {
                let (_, above) = from.split_last()?;
                self.inside(&above.to_vec(), rest, depth)
            }
            _ => self.inside(from, path, depth),
        }
    }

    /// Follows names from a module down, through re-exports.
    fn inside(&self, module: &ModulePath, rest: &[String], depth: usize) -> Option<ModulePath> {
        let here = self.0.get(module)?;
        let Some((first, more)) = rest.split_first() else { return Some(module.clone()) };
        if first == "super" || first == "self" {
            return self.target(module, rest, depth + 1);
        }
        let below: ModulePath = [module.as_slice(), std::slice::from_ref(first)].concat();
        if self.0.contains_key(&below) {
            return self.inside(&below, more, depth + 1);
        }
        if here.items.contains(first) {
            return Some(module.clone());
        }
        if let Some(alias) = here.aliases.get(first) {
            if alias.as_slice() == [first.clone()] {
                return None;
            }
            let path = [alias.as_slice(), more].concat();
            return self.target(module, &path, depth + 1);
        }
        let mut globs = here.globs.iter();
        globs.find_map(|glob| self.target(module, &[glob.as_slice(), rest].concat(), depth + 1))
    }

    /// Which modules each module needs.
    fn edges(&self) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
        let edge = |(from, module): (_, &Module)| {
            let paths = module.paths.iter().chain(module.aliases.values()).chain(&module.globs);
            let ends = paths.filter_map(|path| self.target(from, path, 0)).filter(|to| to != from);
            let ends = ends.filter_map(|to| self.0.get_key_value(&to).map(|(key, _)| key));
            (from, ends.collect())
        };
        self.0.iter().map(edge).collect()
    }

    fn lines(&self) -> usize {
        self.0.values().map(|module| module.lines).sum()
    }

    /// The files of the largest circle, in order.
    fn largest_circle(&self) -> Vec<&Module> {
        let edges = self.edges();
        let circles = strong_components(&edges);
        let modules = |circle: Vec<&ModulePath>| -> Vec<&Module> {
            circle.iter().filter_map(|module| self.0.get(*module)).collect()
        };
        let circles = circles.into_iter().filter(|circle| circle.len() > 1).map(modules);
        let lines = |circle: &Vec<&Module>| -> usize { circle.iter().map(|one| one.lines).sum() };
        let mut largest = circles.max_by_key(lines).unwrap_or_default();
        largest.sort_by(|a, b| a.path.cmp(&b.path));
        largest
    }

    /// How much of all lines some modules have, in percent.
    fn percent(&self, modules: &[&Module]) -> usize {
        let lines: usize = modules.iter().map(|module| module.lines).sum();
        lines * 100 / self.lines()
    }
}

/// Tarjan's algorithm.
fn strong_components<'a>(
    edges: &BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
) -> Vec<Vec<&'a ModulePath>> {
    let mut search = Search { edges, met: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in edges.keys() {
        if !search.met.contains_key(*node) {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'e, 'a> {
    edges: &'e BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
    /// When a node was met, and the earliest one on the stack that it leads back to.
    met: BTreeMap<&'a ModulePath, (usize, usize)>,
    stack: Vec<&'a ModulePath>,
    found: Vec<Vec<&'a ModulePath>>,
}

impl<'a> Search<'_, 'a> {
    fn visit(&mut self, node: &'a ModulePath) -> usize {
        let number = self.met.len();
        self.met.insert(node, (number, number));
        self.stack.push(node);
        let mut low = number;
        for next in self.edges.get(node).into_iter().flatten().copied() {
            match self.met.get(next) {
                None => low = low.min(self.visit(next)),
                Some((met, _)) if self.stack.contains(&next) => low = low.min(*met),
                Some(_) => {}
            }
        }
        self.met.insert(node, (number, low));
        if low == number {
            let at = self.stack.iter().position(|on| *on == node).unwrap();
            self.found.push(self.stack.split_off(at));
        }
        low
    }
}

fn read(source: &Source) -> Module {
    let lines = source.text.lines().count();
    let mut module = Module { path: source.path.clone(), lines, ..Module::default() };
    let file = syn::parse_file(&source.text).unwrap_or_else(|e| panic!("{}: {e}", source.path));
    add_items(&mut module, &file.items);
    module
}

pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = quote::quote!(#attribute).to_string().replace(' ', "");
        text.contains("cfg(test)") || text == "#[test]"
    })
}

fn add_items(module: &mut Module, items: &[Item]) {
    for item in items {
        let (name, attributes) = match item {
            Item::Const(item) => (Some(&item.ident), &item.attrs),
            Item::Enum(item) => (Some(&item.ident), &item.attrs),
            Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
            Item::Static(item) => (Some(&item.ident), &item.attrs),
            Item::Struct(item) => (Some(&item.ident), &item.attrs),
            Item::Trait(item) => (Some(&item.ident), &item.attrs),
            Item::Type(item) => (Some(&item.ident), &item.attrs),
            Item::Impl(item) => (None, &item.attrs),
            Item::Use(item) => {
                if !is_for_tests(&item.attrs) {
                    add_use(module, &item.tree, &[]);
                }
                continue;
            }
            Item::Mod(item) => {
                add_mod(module, item);
                continue;
            }
            Item::ExternCrate(_)
            | Item::ForeignMod(_)
            | Item::TraitAlias(_)
            | Item::Union(_)
            | Item::Verbatim(_)
            | _ => continue,
        };
        if is_for_tests(attributes) {
            continue;
        }
        module.items.extend(name.map(ToString::to_string));
        // What a macro declares by name, as `section!` does, is the file's own.
        if let Item::Macro(item) = item {
            module.items.extend(declared(item.mac.tokens.clone()));
        }
        add_paths(module, quote::quote!(#item));
    }
}

/// A module inside the file is a part of it.
fn add_mod(module: &mut Module, item: &ItemMod) {
    if let Some((_, items)) = item.content.as_ref().filter(|_| !is_for_tests(&item.attrs)) {
        add_items(module, items);
    }
}

/// Names behind `struct`, `enum`, `fn` or `const` in the argument of a macro.
fn declared(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let word = |tree: &TokenTree| matches!(tree, TokenTree::Ident(_)).then(|| tree.to_string());
    let named = tokens.windows(2).filter_map(|pair| {
        let keyword = word(&pair[0])?;
        let is_keyword = ["struct", "enum", "fn", "const", "static"].contains(&keyword.as_str());
        is_keyword.then(|| word(&pair[1]))?
    });
    named.collect()
}

fn add_use(module: &mut Module, tree: &UseTree, way: &[String]) {
    let with = |name: &syn::Ident| [way, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => add_use(module, &path.tree, &with(&path.ident)),
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_use(module, tree, way)),
        UseTree::Glob(_) => module.globs.push(way.to_vec()),
        UseTree::Name(name) if name.ident == "self" => {
            let last = way.last().cloned().unwrap_or_default();
            module.aliases.insert(last, way.to_vec());
        }
        UseTree::Name(name) => {
            module.aliases.insert(name.ident.to_string(), with(&name.ident));
        }
        UseTree::Rename(rename) => {
            module.aliases.insert(rename.rename.to_string(), with(&rename.ident));
        }
    }
}

/// Every `a::b::c` among tokens; a single name too, which may be one that `use` brought in.
fn add_paths(module: &mut Module, tokens: TokenStream) {
    let (mut path, mut colons, mut is_member) = (Vec::new(), 0, false);
    for tree in tokens {
        match tree {
            TokenTree::Ident(word) => {
                if colons < 2 {
                    end_path(module, &mut path);
                }
                if !is_member {
                    path.push(word.to_string());
                }
                (colons, is_member) = (0, false);
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Punct(mark) => {
                end_path(module, &mut path);
                (colons, is_member) = (0, mark.as_char() == '.');
            }
            TokenTree::Group(group) => {
                end_path(module, &mut path);
                (colons, is_member) = (0, false);
                let is_open = group.delimiter() != Delimiter::None || !group.stream().is_empty();
                if is_open {
                    add_paths(module, group.stream());
                }
            }
            TokenTree::Literal(_) => {
                end_path(module, &mut path);
                (colons, is_member) = (0, false);
            }
        }
    }
    end_path(module, &mut path);
}

fn end_path(module: &mut Module, path: &mut Vec<String>) {
    let path = std::mem::take(path);
    // A name alone that is no import is a local one, or the file's own.
    if path.len() > 1 || path.first().is_some_and(|name| module.aliases.contains_key(name)) {
        module.paths.insert(path);
    }
}

/// The files of a crate's library with the modules that they are.
fn modules_of(name: &str) -> Vec<(ModulePath, Source)> {
    let start = format!("{}/src/", folders()[name]);
    let with_module = |source: Source| {
        let inner = source.path.trim_start_matches(&start).trim_end_matches(".rs");
        let names = inner.split('/').filter(|name| *name != "mod" && *name != "lib");
        (names.map(str::to_owned).collect(), source)
    };
    let files = sources_of(name, "src").into_iter().map(with_module);
    files.filter(|(module, _): &(ModulePath, Source)| module.as_slice() != ["main"]).collect()
}

/// Files that only tests are built with.
fn without_tests(files: Vec<(ModulePath, Source)>) -> Vec<(ModulePath, Source)> {
    let mut tests: BTreeSet<ModulePath> = BTreeSet::new();
    for (module, source) in &files {
        for item in syn::parse_file(&source.text).unwrap().items {
            if let Item::Mod(item) = item
                && is_for_tests(&item.attrs)
            {
                tests.insert([module.as_slice(), &[item.ident.to_string()]].concat());
            }
        }
    }
    let is_test = |module: &ModulePath| tests.iter().any(|test| module.starts_with(test));
    files.into_iter().filter(|(module, _)| !is_test(module)).collect()
}

/// How much of a crate's lines stand in its largest circle.
pub(super) fn percent(name: &str) -> usize {
    let modules = Modules::of(&without_tests(modules_of(name)));
    modules.percent(&modules.largest_circle())
}

#[test]
fn no_crate_is_one_circle() {
    let mut findings = Vec::new();
    for name in crates() {
        let modules = Modules::of(&without_tests(modules_of(&name)));
        if modules.lines() < COUNTED_LINES {
            continue;
        }
        let circle = modules.largest_circle();
        let percent = modules.percent(&circle);
        println!("{name}: {} files, {percent} % of {} lines", circle.len(), modules.lines());
        if percent > MOST {
            let circle: Vec<&str> = circle.iter().map(|module| module.path.as_str()).collect();
            findings.push(format!("{name}: {percent} %: {circle:?}"));
        }
    }
    assert_eq!(findings, Vec::<String>::new());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| {
            let names = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned);
            let source = Source { path: (*path).to_owned(), text: (*text).to_owned() };
            (names.collect(), source)
        };
        let files = without_tests(files.iter().map(file).collect());
        Modules::of(&files).largest_circle().into_iter().map(|one| one.path.clone()).collect()
    }

    #[test]
    fn a_circle_is_found_through_re_exports_bodies_and_macros() {
        let up = ("", "mod a; mod b; mod c; pub use self::b::Thing;");
        let a = ("a", "pub fn f() {}");
        let through = ("b", "pub struct Thing; fn g() { vec![crate::a::f()]; }");
        assert_eq!(circle(&[up, a, through]), Vec::<String>::new());
        let back = ("a", "use crate::Thing; pub fn f() -> Thing { Thing }");
        assert_eq!(circle(&[up, back, through]), ["a", "b"]);
        let glob = ("a", "use super::*; pub fn f(_: Thing) {}");
        assert_eq!(circle(&[up, glob, through]).len(), 3, "the root re-exports what a needs");
        let in_a_test = ("a", "pub fn f() {} #[cfg(test)] mod tests { use crate::b::Thing; }");
        assert_eq!(circle(&[up, in_a_test, through]), Vec::<String>::new());
    }
}
