//! The project's Markdown files, as far as tests check them: headings, links and fenced code blocks.

use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file of the repository.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where it is, with symbolic links followed.
    pub path: PathBuf,
    /// Its path below the root of the repository.
    pub name: String,
    /// The fenced code blocks, in order.
    pub blocks: Vec<Block>,
    /// The anchors of the headings, as GitHub and rustdoc derive them.
    pub anchors: Vec<String>,
    /// The destinations of the inline links and of the link definitions.
    pub links: Vec<String>,
    /// The labels of the links `[text][label]` and `[label]`, in lower case.
    pub references: Vec<String>,
    /// The link definitions: label and destination.
    pub definitions: Vec<(String, String)>,
}

/// A fenced code block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The file and the line of the opening fence, for messages.
    pub place: String,
    /// What follows the opening fence: `rust,no_run`.
    pub language: String,
    /// What is between the fences.
    pub text: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// README.md and the files of `docs`.
pub fn guides() -> Vec<Page> {
    let docs = fs::read_dir(root().join("docs")).expect("docs");
    let docs = docs.map(|entry| entry.expect("an entry of docs").path());
    let mut files: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    files.sort();
    files.insert(0, root().join("README.md"));
    files.iter().map(|path| Page::read(path)).collect()
}

/// Every page whose links are tested.
pub fn pages() -> Vec<Page> {
    let mut pages = guides();
    for name in ["CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        pages.push(Page::read(&root().join(name)));
    }
    pages.extend(readmes());
    pages
}

/// The README of each crate that has one.
pub fn readmes() -> Vec<Page> {
    let crates = fs::read_dir(root().join("crates")).expect("crates").flatten();
    let readmes = crates.map(|dir| dir.path().join("README.md"));
    readmes.filter(|path| path.exists()).map(|path| Page::read(&path)).collect()
}

/// The blocks of README.md, `docs` and the crates' READMEs in this language.
pub fn blocks(language: &str) -> Vec<Block> {
    let all = guides().into_iter().chain(readmes()).flat_map(|page| page.blocks);
    all.filter(|block| block.language.split(',').next() == Some(language)).collect()
}

impl Page {
    /// Reads a file.
    ///
    /// # Panics
    /// If it cannot be read, or has a fence without an end.
    pub fn read(path: &Path) -> Page {
        let path = path.canonicalize().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        let mut page = Page {
            path,
            name,
            blocks: Vec::new(),
            anchors: Vec::new(),
            links: Vec::new(),
            references: Vec::new(),
            definitions: Vec::new(),
        };
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let place = format!("{}:{}", page.name, number + 1);
            if let Some(language) = line.trim_start().strip_prefix("```") {
                let mut text = String::new();
                loop {
                    let (_, line) = lines.next().unwrap_or_else(|| panic!("{place}: never ends"));
                    if line.trim() == "```" {
                        break;
                    }
                    text = text + line + "\n";
                }
                page.blocks.push(Block { place, language: language.trim().to_owned(), text });
                continue;
            }
            page.read_line(line);
        }
        page
    }

    fn read_line(&mut self, line: &str) {
        if line.starts_with('#') && line.trim_start_matches('#').starts_with(' ') {
            self.add_anchor(line.trim_start_matches('#').trim());
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((label, destination)) = definition {
            self.definitions.push((label.to_owned(), destination.trim().to_owned()));
            self.links.push(destination.trim().to_owned());
            return;
        }
        // Every second piece is between backquotes; a link's text may be, its destination is not.
        let prose: String = line.split('`').step_by(2).collect();
        for rest in prose.split("](").skip(1) {
            if let Some((destination, _)) = rest.split_once(')') {
                self.links.push(destination.to_owned());
            }
        }
        self.read_references(&prose);
        for rest in line.split("src=\"").skip(1).chain(line.split("href=\"").skip(1)) {
            if let Some((destination, _)) = rest.split_once('"') {
                self.links.push(destination.to_owned());
            }
        }
    }

    fn read_references(&mut self, prose: &str) {
        let mut rest = prose;
        while let Some((text, after)) =
            rest.split_once('[').and_then(|(_, link)| link.split_once(']'))
        {
            rest = after;
            let label = match after.strip_prefix('[').and_then(|label| label.split_once(']')) {
                Some((label, after)) => {
                    rest = after;
                    label
                }
                None if after.starts_with('(') => continue,
                None => text,
            };
            self.references.push(label.to_lowercase());
        }
    }

    fn add_anchor(&mut self, heading: &str) {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let same = self.anchors.iter().filter(|known| **known == anchor).count();
        self.anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
}
