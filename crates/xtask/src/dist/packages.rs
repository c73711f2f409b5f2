//! The packages: a tarball, a Debian package, npm packages, a wheel, and the files that install
//! them (the install script, the Dockerfile and the Homebrew formula).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{read_packaging_file, run_for_output, write_file};
use crate::Failure;
use crate::run::{repository, run_step};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const DESCRIPTION: &str =
    "Takes back what an AI agent did, in your files and in its conversation, together";
const LICENSE: &str = "MIT OR Apache-2.0";
const LICENSE_FILES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// A platform that the program is built for.
pub(super) struct Platform {
    /// npm's name for the platform. The names of tarballs and npm packages contain it.
    pub(super) name: &'static str,
    /// The name of the architecture in Debian packages.
    debian: Option<&'static str>,
    /// The platforms in the wheel's tag. A static program for Linux runs on the oldest systems that
    /// pip knows, with either C library.
    wheel: &'static str,
}

pub(super) const PLATFORMS: [Platform; 4] = [
    Platform {
        name: "linux-x64",
        debian: Some("amd64"),
        wheel: "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    },
    Platform {
        name: "linux-arm64",
        debian: Some("arm64"),
        wheel: "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    },
    Platform { name: "darwin-x64", debian: None, wheel: "macosx_10_12_x86_64" },
    Platform { name: "darwin-arm64", debian: None, wheel: "macosx_11_0_arm64" },
];

/// A platform with its program.
pub(super) type Binary = (&'static Platform, PathBuf);

/// The files that were created for the platform whose packages are tested.
pub(super) struct Packages {
    pub(super) directory: PathBuf,
    pub(super) tarball: PathBuf,
    pub(super) debian: PathBuf,
    /// The package that users install, and the package that contains the program.
    pub(super) npm: [PathBuf; 2],
    pub(super) wheel: PathBuf,
    pub(super) install_script: PathBuf,
}

pub(super) struct Packager<'a> {
    /// The programs. The first one runs on this machine.
    binaries: &'a [Binary],
    directory: &'a Path,
    base_url: &'a str,
    /// The time of the last commit, which is the modification time of all files in the packages.
    time: String,
}

impl<'a> Packager<'a> {
    /// Starts packaging into `directory`, which is emptied first.
    pub(super) fn new(
        binaries: &'a [Binary],
        directory: &'a Path,
        base_url: &'a str,
    ) -> Result<Packager<'a>, Failure> {
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(|error| error.to_string())?;
        }
        let mut git = Command::new("git");
        let time =
            run_for_output(git.current_dir(repository()).args(["log", "-1", "--format=%ct"]));
        let time = time.map_or_else(|_| "0".to_owned(), |time| time.trim().to_owned());
        Ok(Packager { binaries, directory, base_url, time })
    }

    /// Writes all packages. Returns those of the first platform.
    pub(super) fn write_all(&self) -> Result<Packages, Failure> {
        let share = self.stage_share()?;
        let root = self.write_npm_root()?;
        let mut sums = vec![checksum(&root)?];
        let mut first = None;
        for binary in self.binaries {
            let tree = self.stage_tree(binary, &share)?;
            let tarball = self.write_tarball(&tree)?;
            let debian = self.write_debian(binary.0, &tree)?;
            let npm = self.write_npm_platform(binary)?;
            let wheel = self.write_wheel(binary)?;
            for file in [&tarball, &npm, &wheel].into_iter().chain(&debian) {
                sums.push(checksum(file)?);
            }
            first = first.or(Some((tarball, debian, npm, wheel)));
        }
        let lines: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        write_file(&self.directory.join("SHA256SUMS"), lines)?;
        self.write_filled("homebrew/takeback.rb", &sums)?;
        self.write_filled("Dockerfile", &sums)?;
        let install_script = self.write_filled("install.sh", &sums)?;
        let (tarball, debian, npm, wheel) = first.ok_or("no program to package")?;
        let debian = debian.ok_or("no Debian package for this machine")?;
        let npm = [root, npm];
        let directory = self.directory.to_owned();
        Ok(Packages { directory, tarball, debian, npm, wheel, install_script })
    }

    /// Returns a directory for the content of a package.
    fn staging(&self, name: &str) -> PathBuf {
        self.directory.join("staging").join(name)
    }

    /// Writes the files that are the same on all platforms: the manual, the completions, the
    /// documents and the licenses.
    fn stage_share(&self) -> Result<PathBuf, Failure> {
        let share = self.staging("share");
        let (_, program) = &self.binaries[0];
        let completions = [
            ("bash", "bash-completion/completions/takeback"),
            ("zsh", "zsh/site-functions/_takeback"),
            ("fish", "fish/vendor_completions.d/takeback.fish"),
        ];
        for (shell, file) in completions {
            let script = run_for_output(Command::new(program).args(["completions", shell]))?;
            write_file(&share.join(file), script)?;
        }
        let pages = share.join("man/man1");
        fs::create_dir_all(&pages).map_err(|error| error.to_string())?;
        run_step(Command::new(program).arg("man-pages").arg(&pages))?;
        for file in LICENSE_FILES.into_iter().chain(["README.md", "CHANGELOG.md"]) {
            copy_file(&repository().join(file), &share.join("doc/takeback").join(file))?;
        }
        Ok(share)
    }

    /// Writes the tree that the tarball and the Debian package contain.
    fn stage_tree(&self, (platform, program): &Binary, share: &Path) -> Result<PathBuf, Failure> {
        let tree = self.staging(&format!("takeback-{VERSION}-{}", platform.name));
        copy_program(program, &tree.join("bin/takeback"))?;
        run_step(Command::new("cp").arg("-a").arg(share).arg(&tree))?;
        Ok(tree)
    }

    fn write_tarball(&self, tree: &Path) -> Result<PathBuf, Failure> {
        let name = tree.file_name().unwrap_or_default();
        let tarball = self.directory.join(format!("{}.tar.gz", name.display()));
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX"]);
        tar.arg(format!("--mtime=@{}", self.time)).arg("-C").arg(tree.parent().unwrap_or(tree));
        tar.args(["--use-compress-program=gzip -9n", "-cf"]).arg(&tarball);
        run_step(tar.arg(name))?;
        Ok(tarball)
    }

    /// Writes the Debian package. In a Debian package, the files are below `/usr`, and the manual
    /// is compressed.
    fn write_debian(&self, platform: &Platform, tree: &Path) -> Result<Option<PathBuf>, Failure> {
        let Some(architecture) = platform.debian else { return Ok(None) };
        let root = self.staging(&format!("deb-{architecture}"));
        let usr = root.join("usr");
        fs::create_dir_all(&usr).map_err(|error| error.to_string())?;
        run_step(
            Command::new("cp").arg("-a").arg(tree.join("bin")).arg(tree.join("share")).arg(&usr),
        )?;
        let doc = usr.join("share/doc/takeback");
        fs::rename(doc.join(LICENSE_FILES[0]), doc.join("copyright"))
            .map_err(|error| error.to_string())?;
        // `zsh` looks for the completions of Debian packages in a directory other than its usual
        // one.
        let zsh = usr.join("share/zsh");
        fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))
            .map_err(|error| error.to_string())?;
        run_step(Command::new("sh").current_dir(usr.join("share")).args([
            "-c",
            "gzip -9n man/man1/*.1 doc/takeback/CHANGELOG.md && chmod -R u+rwX,go+rX,go-w .",
        ]))?;
        let kilobytes = run_for_output(Command::new("du").arg("-sk").arg(&usr))?;
        let kilobytes = kilobytes.split_whitespace().next().unwrap_or("0").to_owned();
        let control = read_packaging_file("deb/control")?;
        let control = control.replace("{version}", VERSION).replace("{architecture}", architecture);
        let control = control.replace("{size}", &kilobytes);
        write_file(&root.join("DEBIAN/control"), control)?;
        let package = self.directory.join(format!("takeback_{VERSION}_{architecture}.deb"));
        let mut build = Command::new("dpkg-deb");
        build.env("SOURCE_DATE_EPOCH", &self.time).args(["--root-owner-group", "--build"]);
        run_step(build.arg(&root).arg(&package))?;
        Ok(Some(package))
    }

    /// Writes the npm package that users install. It contains only the launcher, and depends on the
    /// packages with the program.
    fn write_npm_root(&self) -> Result<PathBuf, Failure> {
        let launcher = read_packaging_file("npm/launcher.js")?;
        write_file(&self.staging("npm-root").join("launcher.js"), launcher)?;
        let platforms = PLATFORMS.each_ref().map(|platform| (npm_name(platform), json!(VERSION)));
        let manifest = json!({
            "name": "takeback",
            "version": VERSION,
            "description": DESCRIPTION,
            "license": LICENSE,
            "homepage": self.repository(),
            "bin": { "takeback": "launcher.js" },
            "engines": { "node": ">=18" },
            "optionalDependencies": serde_json::Map::from_iter(platforms),
        });
        self.pack_npm("npm-root", &manifest)
    }

    fn write_npm_platform(&self, (platform, program): &Binary) -> Result<PathBuf, Failure> {
        let name = npm_name(platform);
        copy_program(program, &self.staging(&name).join("bin/takeback"))?;
        let (system, machine) = platform.name.split_once('-').expect("a platform has two parts");
        let manifest = json!({
            "name": name,
            "version": VERSION,
            "description": format!("The program takeback for {}", platform.name),
            "license": LICENSE,
            "homepage": self.repository(),
            "os": [system],
            "cpu": [machine],
            "preferUnplugged": true,
        });
        self.pack_npm(&name, &manifest)
    }

    fn pack_npm(&self, name: &str, manifest: &serde_json::Value) -> Result<PathBuf, Failure> {
        let staging = self.staging(name);
        for file in LICENSE_FILES {
            copy_file(&repository().join(file), &staging.join(file))?;
        }
        write_file(&staging.join("README.md"), self.read_readme()?)?;
        write_file(&staging.join("package.json"), format!("{manifest:#}\n"))?;
        let mut npm = Command::new("npm");
        npm.current_dir(&staging).args(["pack", "--silent", "--pack-destination"]);
        let packed = run_for_output(npm.arg(self.directory))?;
        Ok(self.directory.join(packed.trim()))
    }

    /// Writes the wheel. Its only content is the program, as a script.
    fn write_wheel(&self, (platform, program): &Binary) -> Result<PathBuf, Failure> {
        let name = format!("takeback-{VERSION}");
        let staging = self.staging(&format!("wheel-{}", platform.name));
        let (data, info) = (format!("{name}.data"), format!("{name}.dist-info"));
        copy_program(program, &staging.join(&data).join("scripts/takeback"))?;
        for file in LICENSE_FILES {
            copy_file(&repository().join(file), &staging.join(&info).join("licenses").join(file))?;
        }
        write_file(&staging.join(&info).join("METADATA"), self.wheel_metadata()?)?;
        let tags = platform.wheel.split('.').map(|system| format!("Tag: py3-none-{system}\n"));
        let tags: String = tags.collect();
        let wheel =
            format!("Wheel-Version: 1.0\nGenerator: takeback\nRoot-Is-Purelib: false\n{tags}");
        write_file(&staging.join(&info).join("WHEEL"), wheel)?;
        let mut files = vec![format!("{data}/scripts/takeback")];
        files.extend(LICENSE_FILES.map(|file| format!("{info}/licenses/{file}")));
        files.extend(["METADATA", "WHEEL"].map(|file| format!("{info}/{file}")));
        write_file(&staging.join(&info).join("RECORD"), wheel_record(&staging, &info, &files)?)?;
        let package = self.directory.join(format!("{name}-py3-none-{}.whl", platform.wheel));
        let mut zip = Command::new("python3");
        zip.current_dir(&staging).args(["-m", "zipfile", "-c"]).arg(&package);
        run_step(zip.arg(&data).arg(&info))?;
        Ok(package)
    }

    fn wheel_metadata(&self) -> Result<String, Failure> {
        Ok(format!(
            "Metadata-Version: 2.4\nName: takeback\nVersion: {VERSION}\nSummary: {DESCRIPTION}\n\
             Project-URL: Homepage, {}\nLicense-Expression: {LICENSE}\nLicense-File: {}\n\
             License-File: {}\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{}",
            self.repository(),
            LICENSE_FILES[0],
            LICENSE_FILES[1],
            self.read_readme()?
        ))
    }

    /// Returns the address of the repository, derived from the address of its releases on GitHub.
    fn repository(&self) -> &str {
        self.base_url.trim_end_matches("/download").trim_end_matches("/releases")
    }

    /// Reads the README, and makes its relative links absolute, because a package index shows the
    /// README without the other documents.
    fn read_readme(&self) -> Result<String, Failure> {
        let readme = repository().join("README.md");
        let readme = fs::read_to_string(&readme).map_err(|error| error.to_string())?;
        let base = |kind: &str| format!("{}/{kind}/v{VERSION}/", self.repository());
        Ok(resolve_links(&readme, &base("blob"), &base("raw")))
    }

    /// Writes a copy of a file in `packaging/`, with the version, the addresses and the checksums
    /// filled in. The checksums of platforms without a program are not filled in.
    fn write_filled(&self, name: &str, sums: &[(String, String)]) -> Result<PathBuf, Failure> {
        let mut text = read_packaging_file(name)?.replace("{version}", VERSION);
        text = text.replace("{base_url}", self.base_url).replace("{repository}", self.repository());
        for (file, sum) in sums {
            text = text.replace(&format!("{{sha256:{file}}}"), sum);
        }
        let path = self.directory.join(Path::new(name).file_name().unwrap_or_default());
        write_file(&path, text)?;
        Ok(path)
    }
}

/// Makes the relative links in a Markdown text absolute. Links to images get the prefix `images`,
/// and all others the prefix `documents`.
fn resolve_links(text: &str, documents: &str, images: &str) -> String {
    let mut parts = text.split("](");
    let mut resolved = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_absolute = part.starts_with("https://") || part.starts_with('#');
        let is_image = resolved.rfind('[').is_some_and(|at| resolved[..at].ends_with('!'));
        let base = if is_image { images } else { documents };
        resolved = resolved + "](" + if is_absolute { "" } else { base } + part;
    }
    resolved
}

fn npm_name(platform: &Platform) -> String {
    format!("takeback-{}", platform.name)
}

/// Copies a program, and makes the copy executable, even if the original is not.
fn copy_program(from: &Path, to: &Path) -> Result<(), Failure> {
    copy_file(from, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())
}

/// Returns the name of a file and its checksum.
fn checksum(file: &Path) -> Result<(String, String), Failure> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, hex_digest(file)?))
}

/// Lists the files of a wheel with their digests.
fn wheel_record(staging: &Path, info: &str, files: &[String]) -> Result<String, Failure> {
    let mut record = String::new();
    for file in files {
        let (digest, size) = digest(&staging.join(file))?;
        record.push_str(&format!("{file},sha256={},{size}\n", URL_SAFE_NO_PAD.encode(digest)));
    }
    Ok(record + &format!("{info}/RECORD,,\n"))
}

fn hex_digest(path: &Path) -> Result<String, Failure> {
    Ok(digest(path)?.0.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the SHA-256 digest and the size of a file.
fn digest(path: &Path) -> Result<(Vec<u8>, usize), Failure> {
    let content = fs::read(path);
    let content = content.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok((Sha256::digest(&content).to_vec(), content.len()))
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Failure> {
    let copy = || {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        fs::copy(from, to)
    };
    let copied = copy().map(drop);
    copied.map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_become_absolute() {
        let text = "![a](docs/a.svg) [b](LICENSE-MIT), [c](#c) and [d](https://d.example/)";
        let resolved = resolve_links(text, "https://e.example/blob/", "https://e.example/raw/");
        let expected = "![a](https://e.example/raw/docs/a.svg) \
                        [b](https://e.example/blob/LICENSE-MIT), [c](#c) and \
                        [d](https://d.example/)";
        assert_eq!(resolved, expected);
    }
}
