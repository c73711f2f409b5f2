//! Reading the result of each test from the reports of nextest and of cargo's own test runner, and
//! summarizing the results in the closing lines.

use std::fmt;

/// The beginning of the line that a test writes when it cannot test a feature on this machine.
const SKIPPED: &str = "skipped: ";

/// A test that ran.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestResult {
    /// The package and the binary, then the path of the test.
    pub(crate) name: String,
    pub(crate) failed: bool,
    /// The reasons why parts of the test were skipped.
    pub(crate) skipped: Vec<String>,
}

/// Reads the results from a JUnit report, as nextest writes it.
pub(crate) fn parse_junit(xml: &str) -> Vec<TestResult> {
    // Text in the report contains no `<`, because it is escaped.
    let cases = xml.split("<testcase").skip(1);
    let parse_case = |case: &str| {
        let body = case.split("</testcase>").next().unwrap_or_default();
        let attribute = |name: &str| {
            let (_, rest) = body.split_once(&format!(" {name}=\""))?;
            rest.split('"').next().map(unescape)
        };
        let [binary, test] = ["classname", "name"].map(|name| attribute(name).unwrap_or_default());
        TestResult {
            name: format!("{binary} {test}"),
            failed: body.contains("<failure") || body.contains("<error"),
            skipped: find_reasons(&unescape(body)),
        }
    };
    cases.map(parse_case).collect()
}

/// Finds the reasons for skipped parts, and lists each reason once.
fn find_reasons(output: &str) -> Vec<String> {
    let reason = |line: &str| {
        // The first line of a test's output can be on the same line as the test's name.
        let line = line.rsplit_once(" ... ").map_or(line, |(_, rest)| rest);
        let line = line.strip_prefix("<system-err>").unwrap_or(line);
        line.strip_prefix(SKIPPED).map(|reason| reason.trim().to_owned())
    };
    let mut reasons: Vec<String> = Vec::new();
    for reason in output.lines().filter_map(|line| reason(line.trim_start())) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

fn unescape(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'")];
    let text = entities.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&amp;", "&")
}

/// The combined results of all tests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// The skipped tests, each with its reason.
    reasons: Vec<String>,
}

impl Tally {
    pub(crate) fn add_passed(&mut self) {
        self.passed += 1;
    }

    pub(crate) fn add_failed(&mut self) {
        self.failed += 1;
    }

    pub(crate) fn add_skipped(&mut self, name: &str, reason: &str) {
        self.skipped += 1;
        self.reasons.push(format!("{name}: {reason}"));
    }

    /// Adds the tests that another tally has counted.
    pub(crate) fn add_all(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.reasons.extend(other.reasons);
    }

    /// Adds a test. A test that failed is counted as failed, even if it also skipped a part.
    pub(crate) fn add_result(&mut self, result: &TestResult) {
        match (result.failed, &result.skipped[..]) {
            (true, _) => self.add_failed(),
            (false, []) => self.add_passed(),
            (false, reasons) => self.add_skipped(&result.name, &reasons.join("; ")),
        }
    }

    /// Adds the output of cargo's own test runner: the totals of each test program, and the reasons
    /// from tests that skipped a part. Cargo itself counts such tests as passed.
    pub(crate) fn add_cargo_output(&mut self, output: &str) {
        for line in output.lines() {
            let Some((_, sum)) = line.split_once("test result: ") else { continue };
            let count = |what: &str| {
                let words: Vec<&str> = sum.split([' ', ';']).collect();
                let at = words.iter().position(|word| *word == what)?;
                words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
            };
            self.passed += count("passed").unwrap_or(0);
            self.failed += count("failed").unwrap_or(0);
            self.skipped += count("ignored").unwrap_or(0);
        }
        for reason in find_reasons(output) {
            self.passed = self.passed.saturating_sub(1);
            self.add_skipped("a test", &reason);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.reasons.is_empty() {
            writeln!(f, "Skipped, in whole or in part:")?;
            for reason in &self.reasons {
                writeln!(f, "  {reason}")?;
            }
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1">
    <testsuite name="tree::it" tests="4">
        <testcase name="undo::a_file_comes_back" classname="tree::it" time="0.051">
            <system-out>
test undo::a_file_comes_back ... ok
not skipped: this is within a line
</system-out>
            <system-err></system-err>
        </testcase>
        <testcase name="limits::a_full_disk" classname="tree::it" time="0.051">
            <system-err>skipped: cannot mount: &quot;only root &amp; co.&quot;
skipped: cannot mount: &quot;only root &amp; co.&quot;
</system-err>
        </testcase>
        <testcase name="hermes" classname="tree::it" time="0.051">
            <system-out>
test hermes ... skipped: no python3
ok
</system-out>
        </testcase>
        <testcase name="broken" classname="tree::it" time="0.001">
            <failure type="test failure">a &lt;b&gt;</failure>
            <system-err>skipped: something</system-err>
        </testcase>
    </testsuite>
</testsuites>"#;

    #[test]
    fn names_and_failures_and_reasons_are_read_from_a_report() {
        let results = parse_junit(REPORT);
        let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
        assert_eq!(names[0], "tree::it undo::a_file_comes_back");
        assert_eq!(names.len(), 4);
        let failed: Vec<bool> = results.iter().map(|result| result.failed).collect();
        assert_eq!(failed, [false, false, false, true]);
        assert!(results[0].skipped.is_empty());
        assert_eq!(results[1].skipped, ["cannot mount: \"only root & co.\""]);
        assert_eq!(results[2].skipped, ["no python3"]);
    }

    #[test]
    fn the_closing_lines_count_each_test_once() {
        let mut tally = Tally::default();
        for result in parse_junit(REPORT) {
            tally.add_result(&result);
        }
        tally.add_skipped("claude", "npm is not installed");
        assert_eq!(
            tally.to_string(),
            "Skipped, in whole or in part:\n  \
             tree::it limits::a_full_disk: cannot mount: \"only root & co.\"\n  \
             tree::it hermes: no python3\n  \
             claude: npm is not installed\n\
             1 passed, 1 failed, 3 skipped"
        );
    }

    #[test]
    fn the_totals_from_cargo_are_added_up() {
        let mut tally = Tally::default();
        tally.add_cargo_output(
            "running 4 tests\nskipped: no python3\n\
             test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
             test result: FAILED. 2 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(
            tally.to_string(),
            "Skipped, in whole or in part:\n  a test: no python3\n5 passed, 1 failed, 4 skipped"
        );
    }
}
