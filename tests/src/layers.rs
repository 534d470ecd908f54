//! Checks that modules of a crate do not depend on each other in a cycle, and that the graph of crates in `docs/architecture.md` is true.
//!
//! Cargo forbids cycles between crates. This test forbids them within each crate, at every level: the modules of one
//! parent form no cycle. A module may use items of its parent, and a parent may use its children.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, UseTree};

type Module = Vec<String>;

/// The folders of the crates that are delivered, from `default-members` of Cargo.toml.
fn crates(repository: &Path) -> Vec<String> {
    let manifest = std::fs::read_to_string(repository.join("Cargo.toml")).unwrap_or_default();
    let (_, rest) = manifest
        .split_once("default-members = [")
        .unwrap_or_default();
    let (members, _) = rest.split_once(']').unwrap_or_default();
    let members = members.split('"').skip(1).step_by(2);
    let delivered = members.filter(|member| !member.starts_with("tests"));
    delivered.map(str::to_owned).collect()
}

/// The names in one module.
#[derive(Default)]
struct Named {
    /// Paths from the root of the crate.
    paths: BTreeSet<Module>,
    /// Names that the module re-exports, and their source.
    passed_on: BTreeMap<String, Module>,
}

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, Named>,
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut read = Self::default();
        let root = match folder.join("src/lib.rs") {
            library if library.exists() => library,
            _ => folder.join("src/main.rs"),
        };
        read.file(&root, &folder.join("src"), Vec::new());
        read
    }

    fn file(&mut self, file: &Path, children: &Path, module: Module) {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        self.items(&parsed.items, children, module);
    }

    fn items(&mut self, items: &[Item], children: &Path, module: Module) {
        let mut found = Finder {
            module: &module,
            named: Named::default(),
        };
        for item in items {
            match item {
                Item::Mod(inner) => self.module(inner, children, &module),
                item => found.visit_item(item),
            }
        }
        let named = found.named;
        self.modules.insert(module, named);
    }

    fn module(&mut self, item: &ItemMod, children: &Path, parent: &[String]) {
        if item.attrs.iter().any(is_for_tests) {
            return;
        }
        let name = item.ident.to_string();
        let path = [parent, std::slice::from_ref(&name)].concat();
        match &item.content {
            Some((_, items)) => self.items(items, &children.join(&name), path),
            None => {
                let candidates: [PathBuf; 2] = [
                    children.join(format!("{name}.rs")),
                    children.join(&name).join("mod.rs"),
                ];
                let file = candidates.iter().find(|file| file.exists());
                let file = file.unwrap_or_else(|| panic!("no file for {path:?}"));
                self.file(file, &children.join(&name), path);
            }
        }
    }

    /// The module that defines the item of a path. Follows re-exports.
    fn resolve(&self, path: &[String]) -> Module {
        let mut module = Vec::new();
        let mut left = path.to_vec();
        for _ in 0..10 {
            while let Some(next) = left.first() {
                let deeper = [module.as_slice(), std::slice::from_ref(next)].concat();
                if !self.modules.contains_key(&deeper) {
                    break;
                }
                module = deeper;
                left.remove(0);
            }
            let passed_on = left
                .first()
                .and_then(|name| self.modules.get(&module)?.passed_on.get(name));
            let Some(origin) = passed_on else { break };
            left = origin.clone();
            module = Vec::new();
        }
        module
    }

    /// For each parent: which of its children use which others.
    fn siblings(&self) -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
        let mut uses: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (module, named) in &self.modules {
            for path in &named.paths {
                let used = self.resolve(path);
                let shared = module
                    .iter()
                    .zip(&used)
                    .take_while(|(one, other)| one == other)
                    .count();
                if let (Some(from), Some(to)) = (module.get(shared), used.get(shared)) {
                    let parent = module.iter().take(shared).cloned().collect();
                    uses.entry(parent)
                        .or_default()
                        .entry(from.clone())
                        .or_default()
                        .insert(to.clone());
                }
            }
        }
        uses
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Path>()
            .is_ok_and(|condition| condition.is_ident("test"))
}

/// Collects the paths that items of one module name.
struct Finder<'a> {
    module: &'a Module,
    named: Named,
}

impl Finder<'_> {
    /// A path as it is written, from the root of the crate; `None` if it leads out of the crate, or to what is near.
    fn absolute(&self, written: &[String]) -> Option<Module> {
        let mut base = match written.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            _ => return None,
        };
        let mut left = written;
        while let Some((first, rest)) = left.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            left = rest;
        }
        base.extend_from_slice(left);
        Some(base)
    }

    fn tree(&mut self, tree: &UseTree, before: &[String], public: bool) {
        let then = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &then(&path.ident), public),
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.tree(tree, before, public)),
            UseTree::Name(name) => self.used(&then(&name.ident), &name.ident, public),
            UseTree::Rename(renamed) => self.used(&then(&renamed.ident), &renamed.rename, public),
            UseTree::Glob(_) => drop(
                self.absolute(before)
                    .map(|path| self.named.paths.insert(path)),
            ),
        }
    }

    fn used(&mut self, written: &[String], name: &syn::Ident, public: bool) {
        // A path that starts with neither of the keywords leads to a child, or to another crate.
        let near = [self.module.as_slice(), written].concat();
        let path = self.absolute(written);
        if public {
            let origin = path.clone().unwrap_or(near);
            self.named.passed_on.insert(name.to_string(), origin);
        }
        self.named.paths.extend(path);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        self.tree(&item.tree, &[], public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let written: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.named.paths.extend(self.absolute(&written));
        syn::visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}
}

/// A cycle in `uses`; `None` if there is none.
fn cycle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn follow(
        uses: &BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        let here = way.last()?.clone();
        for next in uses.get(&here).into_iter().flatten() {
            if let Some(start) = way.iter().position(|seen| seen == next) {
                let mut found = way.split_off(start);
                found.push(next.clone());
                return Some(found);
            }
            if !done.contains(next) {
                way.push(next.clone());
                if let Some(found) = follow(uses, way, done) {
                    return Some(found);
                }
            }
        }
        done.insert(here);
        way.pop();
        None
    }
    let mut done = BTreeSet::new();
    uses.keys()
        .find_map(|start| follow(uses, &mut vec![start.clone()], &mut done))
}

#[test]
fn modules_form_no_cycle() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cycles = Vec::new();
    let crates = crates(&repository);
    assert!(crates.len() >= 15, "{crates:?}");
    for folder in crates {
        let read = Crate::read(&repository.join(&folder));
        assert!(!read.modules.is_empty(), "{folder}");
        for (parent, uses) in read.siblings() {
            if let Some(found) = cycle(&uses) {
                cycles.push(format!(
                    "{folder}, in {}: {}",
                    parent.join("::"),
                    found.join(" -> ")
                ));
            }
        }
    }
    assert_eq!(cycles, [""; 0], "{}", cycles.join("\n"));
}

#[test]
fn a_cycle_is_found() {
    let of = |pairs: &[(&str, &str)]| {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            uses.entry((*from).into()).or_default().insert((*to).into());
        }
        cycle(&uses)
    };
    assert_eq!(of(&[("a", "b"), ("b", "c"), ("a", "c")]), None);
    let found = of(&[("a", "b"), ("b", "c"), ("c", "b")]).unwrap_or_default();
    assert_eq!(found, ["b", "c", "b"]);
}

/// The crates that a manifest depends on, for whatever target. Not what only its tests or its build need.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let tables = manifest
        .split("\n[")
        .filter_map(|table| table.split_once(']'));
    let needed = tables.filter(|(name, _)| {
        name.ends_with("dependencies") && !name.contains("dev-") && !name.contains("build-")
    });
    needed.flat_map(|(_, lines)| {
        let names = lines
            .lines()
            .filter_map(|line| line.split(['.', ' ']).next());
        names.filter(|name| !name.is_empty())
    })
}

/// True if arrows lead from one crate to another.
fn leads(arrows: &BTreeSet<(&str, &str)>, from: &str, to: &str) -> bool {
    let mut steps = arrows.iter().filter(|(start, _)| *start == from);
    steps.any(|(_, end)| *end == to || leads(arrows, end, to))
}

/// Each arrow is a dependency, and each dependency is an arrow or a way along arrows.
#[test]
fn the_graph_of_the_architecture_is_that_of_cargo() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| std::fs::read_to_string(repository.join(name)).unwrap();
    let page = read("docs/architecture.md");
    let graph = page.split("graph TD").nth(1).unwrap_or_default();
    let graph = graph.split("```").next().unwrap_or_default();
    let arrows = graph
        .lines()
        .filter_map(|line| line.trim().split_once(" --> "));
    let arrows: BTreeSet<(&str, &str)> = arrows.collect();
    let manifests = crates(&repository).into_iter().map(|folder| {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let (_, rest) = manifest.split_once("name = \"").unwrap();
        (rest.split('"').next().unwrap().to_owned(), manifest)
    });
    let manifests: BTreeMap<String, String> = manifests.collect();
    let needed = manifests.iter().flat_map(|(name, manifest)| {
        let own = dependencies(manifest).filter(|needed| manifests.contains_key(*needed));
        own.map(move |needed| (name.as_str(), needed))
    });
    let needed: BTreeSet<(&str, &str)> = needed.collect();
    let untrue = arrows.difference(&needed).collect::<Vec<_>>();
    let missing = needed.iter().filter(|(from, to)| !leads(&arrows, from, to));
    let missing = missing.collect::<Vec<_>>();
    assert!(untrue.is_empty(), "no dependency: {untrue:?}");
    assert!(missing.is_empty(), "not in the graph: {missing:?}");
}
