#!/bin/sh
# Installs takeback into ~/.local, or into the directory PREFIX. TAKEBACK_URL is the URL or
# directory from which the tarballs and their checksums are fetched.
set -eu

version="{version}"
prefix="${PREFIX:-$HOME/.local}"
from="${TAKEBACK_URL:-{base_url}/v$version}"

fail() {
    echo "error: $1" >&2
    exit 1
}

platform() {
    case "$(uname -s)" in
        Linux) system=linux ;;
        Darwin) system=darwin ;;
        *) fail "takeback runs only on Linux and macOS" ;;
    esac
    case "$(uname -m)" in
        x86_64 | amd64) machine=x64 ;;
        aarch64 | arm64) machine=arm64 ;;
        *) fail "there is no takeback program for $(uname -m)" ;;
    esac
    echo "$system-$machine"
}

fetch() {
    if [ -d "$from" ]; then
        cp "$from/$1" "$scratch/$1"
    elif command -v curl > /dev/null; then
        curl --proto '=https' --tlsv1.2 -fsSL -o "$scratch/$1" "$from/$1"
    else
        wget -q -O "$scratch/$1" "$from/$1"
    fi || fail "cannot fetch $from/$1"
}

check() {
    if command -v sha256sum > /dev/null; then
        sum=$(sha256sum < "$scratch/$1")
    else
        sum=$(shasum -a 256 < "$scratch/$1")
    fi
    grep -q "^${sum%% *}  $1\$" "$scratch/SHA256SUMS" || fail "$1 has a wrong checksum"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
target=$(platform)
name="takeback-$version-$target"
fetch SHA256SUMS
fetch "$name.tar.gz"
check "$name.tar.gz"
mkdir -p "$prefix/bin"
tar -xzf "$scratch/$name.tar.gz" -C "$scratch"
cp -R "$scratch/$name/share" "$prefix/"
# The program can be replaced by a rename even while the old version is running.
cp "$scratch/$name/bin/takeback" "$prefix/bin/takeback.new"
mv "$prefix/bin/takeback.new" "$prefix/bin/takeback"
"$prefix/bin/takeback" --version
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "hint: add $prefix/bin to PATH" ;;
esac
