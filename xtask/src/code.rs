//! Facts about a Rust file that the rules use: the paths that it mentions, the lengths of its
//! functions, and its lines of test code.
//!
//! The facts come from the syntax tree, not from patterns: a word in a comment or in a string is no
//! mention, and a brace in a string ends no function.

use proc_macro2::{Span, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemFn, ItemUse, Signature, TraitItemFn, UseTree};

/// A path as written, such as `std::fs::read`, or as imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Segments of the path, outermost first.
    pub path: Vec<String>,
    /// Line number, from 1.
    pub line: usize,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name of the function, without its path.
    pub name: String,
    /// Line number of its signature, from 1.
    pub line: usize,
    /// Lines from the signature to the closing brace, without attributes and documentation.
    pub lines: usize,
}

/// Facts about one Rust file that the rules use.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Every path mentioned; imports in braces are expanded.
    pub mentions: Vec<Mention>,
    /// Every function with a body, nested ones included.
    pub functions: Vec<Function>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Code {
    /// Parses a Rust file.
    ///
    /// # Errors
    /// If `text` is not valid Rust; the error has its line.
    pub fn read(text: &str) -> syn::Result<Self> {
        let mut reader = Reader::default();
        reader.visit_file(&syn::parse_file(text)?);
        chains(text.parse()?, &mut reader.code.mentions);
        Ok(reader.code)
    }

    /// Whether `line` lies in an item that only a test build compiles.
    #[must_use]
    pub fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }
}

#[derive(Default)]
struct Reader {
    code: Code,
}

impl Reader {
    fn function(&mut self, signature: &Signature, body: Span) {
        let line = signature.span().start().line;
        self.code.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: body.end().line + 1 - line,
        });
    }

    fn note_test(&mut self, attributes: &[Attribute], whole: Span) {
        if attributes.iter().any(is_test) {
            let range = whole.start().line..=whole.end().line;
            self.code.tests.push(range);
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        self.note_test(attributes(item), item.span());
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.function(&item.sig, item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        self.note_test(&item.attrs, item.span());
        self.function(&item.sig, item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body.span());
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        imports(&item.tree, &mut Vec::new(), &mut self.code.mentions);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether the attribute is `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, …))]`; any condition with
/// `not` is none.
fn is_test(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let Ok(list) = attribute.meta.require_list() else {
        return false;
    };
    let condition = list.tokens.to_string();
    let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
    list.path.is_ident("cfg") && !condition.contains("not") && words.any(|word| word == "test")
}

/// Adds the leaves of an import to `out`, each with its whole path.
fn imports(tree: &UseTree, prefix: &mut Vec<String>, out: &mut Vec<Mention>) {
    let depth = prefix.len();
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            imports(&path.tree, prefix, out);
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                imports(tree, prefix, out);
            }
        }
        UseTree::Name(name) => leaf(&name.ident, prefix, out),
        UseTree::Rename(name) => leaf(&name.ident, prefix, out),
        UseTree::Glob(_) => {}
    }
    prefix.truncate(depth);
}

fn leaf(name: &syn::Ident, prefix: &[String], out: &mut Vec<Mention>) {
    let mut path = prefix.to_vec();
    // `use std::fs::{self}` imports `std::fs`.
    if name != "self" {
        path.push(name.to_string());
    }
    let line = name.span().start().line;
    out.push(Mention { path, line });
}

/// Adds every `a::b::c` of the token stream to `out`. It also looks inside the arguments of macros,
/// which the syntax tree leaves as tokens.
fn chains(tokens: TokenStream, out: &mut Vec<Mention>) {
    let mut chain = Chain::default();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                chain.push(ident.to_string(), ident.span().start().line, out);
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => chain.colons += 1,
            TokenTree::Group(group) => {
                chain.flush(out);
                chains(group.stream(), out);
            }
            _ => chain.flush(out),
        }
    }
    chain.flush(out);
}

/// A path under construction, with the number of colons since its last segment.
#[derive(Default)]
struct Chain {
    path: Vec<String>,
    line: usize,
    colons: usize,
}

impl Chain {
    fn push(&mut self, segment: String, line: usize, out: &mut Vec<Mention>) {
        if self.colons != 2 {
            self.flush(out);
        }
        self.path.push(segment);
        self.line = line;
        self.colons = 0;
    }

    fn flush(&mut self, out: &mut Vec<Mention>) {
        self.colons = 0;
        if !self.path.is_empty() {
            let path = std::mem::take(&mut self.path);
            let line = self.line;
            out.push(Mention { path, line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Code {
        Code::read(text).expect("the sample is Rust")
    }

    fn mentions(text: &str, path: &str) -> bool {
        let wanted: Vec<_> = path.split("::").map(str::to_owned).collect();
        read(text).mentions.iter().any(|m| m.path == wanted)
    }

    #[test]
    fn imports_in_braces_are_expanded() {
        let text = "use std::{collections::{BTreeMap, HashMap}, fs::{self, File}};";
        for path in ["std::collections::HashMap", "std::fs", "std::fs::File"] {
            assert!(mentions(text, path), "{path}");
        }
    }

    #[test]
    fn paths_in_macros_count_and_words_in_text_do_not() {
        let text = "fn f() { println!(\"std::net {}\", std::env::var(\"A\")); } // std::fs";
        assert!(mentions(text, "std::env::var"));
        assert!(!mentions(text, "std::net"));
        assert!(!mentions(text, "std::fs"));
    }

    #[test]
    fn function_length_runs_from_signature_to_brace() {
        let text = "/// Doc.\n#[inline]\nfn f(\n    a: u8,\n) {\n    let _ = \"}\";\n}\n";
        let f = &read(text).functions[0];
        assert_eq!((f.name.as_str(), f.line, f.lines), ("f", 3, 5));
    }

    #[test]
    fn methods_and_nested_functions_are_measured() {
        let text = "impl A { fn a() { fn b() {} } } trait T { fn c() {} fn d(); }";
        let names: Vec<_> = read(text).functions.into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn test_lines_are_recognised() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\n#[cfg(not(test))]\nfn b() {}\n";
        let code = read(text);
        let tests: Vec<_> = (1..=6).filter(|&line| code.is_test(line)).collect();
        assert_eq!(tests, [2, 3, 4]);
    }
}
