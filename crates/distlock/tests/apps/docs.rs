//! The Markdown files of the project: their links lead somewhere, and each code block is tested by its language.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use distlock::Profiles;
use distlock_testkit::docs::{Page, blocks, guides, pages, readmes, root};
use rusqlite::Connection;

/// Absolute links to files of the repository: those in the README of a crate are, because its page has no other files.
const REPOSITORY: &str = "https://github.com/distlock/distlock/blob/main/";

/// Whether lib.rs includes a page of [`guides`], so that rustdoc compiles its Rust code.
fn is_in_rustdoc(page: &Page) -> bool {
    let lib = std::fs::read_to_string(root().join("crates/distlock/src/lib.rs")).unwrap();
    let file = page.name.strip_prefix("docs/").unwrap_or("../docs/README.md");
    lib.contains(&format!("\"{file}\""))
}

/// `Err` says what is wrong with a link.
fn check(page: &Page, link: &str) -> Result<(), String> {
    let (dir, link) = match link.strip_prefix(REPOSITORY) {
        Some(path) => (root(), path),
        None if link.contains("://") || link.starts_with("mailto:") => return Ok(()),
        None => (page.path.parent().unwrap_or(Path::new("/")).to_owned(), link),
    };
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.path.clone() } else { dir.join(file) };
    if !target.exists() {
        return Err("there is no such file".to_owned());
    }
    if anchor.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return Ok(());
    }
    match Page::read(&target).anchors.iter().any(|known| known == anchor) {
        true => Ok(()),
        false => Err("there is no such heading".to_owned()),
    }
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        for link in &page.links {
            count += 1;
            if let Err(why) = check(&page, link) {
                wrong.push(format!("{}: {link}: {why}", page.name));
            }
        }
        for label in &page.references {
            if !page.definitions.iter().any(|(known, _)| known.to_lowercase() == *label) {
                wrong.push(format!("{}: [{label}] is not defined", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 40, "only {count} links were found");
    assert!(pages().iter().any(|page| page.references.len() > 5), "no references were found");
}

#[test]
fn the_pages_of_crates_have_no_relative_links() {
    let crates = readmes();
    assert!(crates.len() >= 3, "{crates:?}");
    for page in crates {
        for link in &page.links {
            assert!(link.contains("://"), "{}: {link}", page.name);
        }
    }
}

#[test]
fn rustdoc_knows_the_links_between_the_guides() {
    let links = Page::read(&root().join("crates/distlock/src/links.md")).definitions;
    // README is a documentation test, not a page of rustdoc.
    for page in guides().iter().filter(|page| page.name != "README.md" && is_in_rustdoc(page)) {
        for link in page.links.iter().filter(|link| link.contains(".md") && !link.contains("://")) {
            let defined = page.definitions.iter().find(|(_, destination)| destination == link);
            let (label, _) = defined.unwrap_or_else(|| {
                panic!("{}: {link} must be a reference link: [text][label], and [label]: {link} at the end", page.name)
            });
            let anchor = link.split_once('#').map_or("", |(_, anchor)| anchor);
            let module = link.split(".md").next().unwrap().replace('-', "_");
            let wanted = format!("crate::{module}");
            let wanted = if anchor.is_empty() { wanted } else { format!("{wanted}#{anchor}") };
            assert!(
                links.contains(&(label.clone(), wanted.clone())),
                "{}: src/links.md lacks `[{label}]: {wanted}`",
                page.name
            );
        }
    }
}

#[test]
fn every_code_block_has_a_language_that_is_tested() {
    for page in guides() {
        for block in &page.blocks {
            let (place, language) = (&block.place, block.language.as_str());
            let words: Vec<&str> = language.split(',').collect();
            match words[0] {
                // Documentation tests.
                "rust" => {
                    let known =
                        |word: &&str| matches!(*word, "no_run" | "should_panic" | "compile_fail");
                    let known = words[1..].iter().all(known);
                    assert!(
                        known || page.name == "README.md",
                        "{place}: `{language}` is not tested"
                    );
                    assert!(is_in_rustdoc(&page), "{place}: lib.rs does not include this page");
                }
                // `sh` and `crontab` by the tests of the command, `java` by those of Redisson, the others below.
                "sh" | "crontab" | "java" | "toml" | "yaml" | "sql" | "text" => {
                    assert_eq!(words.len(), 1, "{place}")
                }
                _ => panic!(
                    "{place}: no test for the language `{language}`; output and diagrams are `text`"
                ),
            }
        }
    }
}

#[test]
fn toml_blocks_are_profiles() {
    let blocks = blocks("toml");
    assert!(!blocks.is_empty());
    for block in blocks {
        Profiles::parse(&block.text).unwrap_or_else(|e| panic!("{}: {e}", block.place));
    }
}

/// SQLite runs what the blocks have in common with PostgreSQL: `$name` parameters and `ON CONFLICT`, all that they use today.
#[test]
fn sql_blocks_run_on_sqlite() {
    let tables = "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
                  CREATE TABLE entry (account INTEGER NOT NULL, amount INTEGER NOT NULL);
                  CREATE TABLE fence (name TEXT PRIMARY KEY, token BIGINT NOT NULL);";
    let blocks = blocks("sql");
    assert!(!blocks.is_empty());
    for block in blocks {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(tables).unwrap();
        if !block.text.contains("ADD COLUMN fence") {
            db.execute_batch("ALTER TABLE account ADD COLUMN fence BIGINT NOT NULL DEFAULT 0")
                .unwrap();
        }
        let uncommented = block.text.lines().map(|line| line.split("--").next().unwrap_or(""));
        let uncommented: Vec<&str> = uncommented.collect();
        for statement in uncommented.join("\n").split(';').filter(|text| !text.trim().is_empty()) {
            let mut ready =
                db.prepare(statement).unwrap_or_else(|e| panic!("{}: {e}", block.place));
            for parameter in 1..=ready.parameter_count() {
                ready.raw_bind_parameter(parameter, 1).unwrap();
            }
            ready.raw_execute().unwrap_or_else(|e| panic!("{}: {e}", block.place));
        }
    }
}

/// By Python's parser, which the test of redis-py wants as well: no crate of ours reads YAML.
#[test]
fn yaml_blocks_parse() {
    let python = |script: &str| {
        let mut python = Command::new("python3");
        python
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        python
    };
    if !python("import yaml").status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no python3 with the module yaml");
        return;
    }
    let blocks = blocks("yaml");
    assert!(!blocks.is_empty());
    for block in blocks {
        let parse = "import sys, yaml; assert list(yaml.safe_load_all(sys.stdin))[0]";
        let mut parse = python(parse).spawn().unwrap();
        parse.stdin.take().unwrap().write_all(block.text.as_bytes()).unwrap();
        let parsed = parse.wait_with_output().unwrap();
        let why = String::from_utf8_lossy(&parsed.stderr);
        assert!(parsed.status.success(), "{}: {why}", block.place);
    }
}
