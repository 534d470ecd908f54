#!/usr/bin/env bash
# earlier-version.sh FOLDER -- builds the token service of the commit that tests/upgrade-from names. FOLDER gets the checkout,
# with the program in it. The dependencies are those of this version, as far as they are built: only the project's own crates
# are compiled.
set -euo pipefail
cd "$(dirname "$0")/../.."

commit=$(<tests/upgrade-from)
# What is built depends on this script too.
stamp="$commit $(sha256sum <tests/tools/earlier-version.sh)"
mkdir -p "$1"
folder=$(realpath "$1")
built=$(realpath "${CARGO_TARGET_DIR:-target}")/debug
[ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder" "$folder/target/debug/deps" "$folder/target/debug/.fingerprint"
git cat-file -e "$commit^{tree}" 2>/dev/null \
    || { echo "tests/upgrade-from: this clone has no commit $commit: git fetch --unshallow" >&2; exit 1; }
git archive "$commit" | tar --extract --directory="$folder"
# Its version may be that of this commit, as long as none is released. The services of an upgrade have two.
sed --in-place '0,/^version = .*/s//version = "0.0.1"/' "$folder/Cargo.toml"
# Its dependencies are compiled as here, with the same profile and features, or none could be used again. Of the earlier
# version, its service alone is left; a crate without code asks for the features.
sed --in-place '/^\[profile\.dev\]/,$d' "$folder/Cargo.toml"
sed --quiet '/^\[profile\.dev\]/,$p' Cargo.toml >>"$folder/Cargo.toml"
sed --in-place --null-data 's/members = \[[^]]*\]/members = ["features", "token-service"]/g' "$folder/Cargo.toml"
mkdir --parents "$folder/features/src"
touch "$folder/features/src/lib.rs"
cargo tree --locked --edges normal,dev --prefix depth --format '|{p}|{f}' | python3 -c '
import collections, sys
wanted, hidden = collections.defaultdict(set), None
for line in filter(str.strip, sys.stdin):
    depth, package, features = line.strip().removesuffix(" (*)").split("|")
    # Macros run here, and their dependencies have features of their own.
    if hidden is not None and int(depth) > hidden:
        continue
    hidden = int(depth) if "(proc-macro)" in package else None
    if hidden is None and "(/" not in package:
        name, version = package.split(" ")
        wanted[name, version].update(filter(None, features.split(",")))
print("[package]\nname = \"features\"\nedition = \"2024\"\n\n[dependencies]")
for number, ((name, version), features) in enumerate(sorted(wanted.items())):
    print("d%d = { package = \"%s\", version = \"=%s\", default-features = false, features = %s }"
        % (number, name, version.removeprefix("v").split("+")[0], sorted(features)))
' >"$folder/features/Cargo.toml"

# Links to what is built. Not of the project's own crates: cargo writes there.
own=$(cargo metadata --no-deps --offline --format-version 1 | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
targets = [target["name"].replace("-", "_") for package in packages for target in package["targets"]]
print("|".join([package["name"] for package in packages] + targets))')
find "$built/.fingerprint" -mindepth 1 -maxdepth 1 -regextype egrep ! -regex ".*/($own)-[0-9a-f]+" \
    -exec cp --archive --link --target-directory="$folder/target/debug/.fingerprint" {} +
find "$built/deps" -regextype egrep -regex '.*[.](rlib|rmeta|so)' ! -regex ".*/lib($own)-[0-9a-f]+[.].*" \
    -exec cp --archive --link --target-directory="$folder/target/debug/deps" {} +
cp --archive --link "$built/build" "$folder/target/debug/build"

cd "$folder"
export CARGO_TARGET_DIR=$folder/target
fetch=(cargo fetch --target "$(rustc -vV | sed -n 's/^host: //p')")
"${fetch[@]}" --offline 2>/dev/null || "${fetch[@]}"
cargo build --offline --workspace --no-default-features --bin token-service
cp target/debug/token-service token-service.program
rm -r target
echo "$stamp" >stamp
