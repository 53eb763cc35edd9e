#!/bin/sh
# Installs the programs of package-lock.json under .tools/npm, unless that very content is there already: the official
# conformance suite, real MCP servers, and a Node that is new enough for them. Needs an npm of any version on PATH.
# No registry is named here or in the lock: npm's own configuration applies, and each archive is checked by its hash.
set -eu

here=$(dirname "$0")
into=.tools/npm
content=$(cat "$here/package.json" "$here/package-lock.json" | cksum)
if [ -f "$into/installed" ] && [ "$(cat "$into/installed")" = "$content" ]; then exit 0; fi
command -v npm >/dev/null 2>&1 || { echo "npm is not on PATH: install it (Debian: npm)" >&2; exit 1; }
echo "Installing the programs of $here/package-lock.json into $into …" >&2
mkdir -p "$into"
rm -f "$into/installed"
cp "$here/package.json" "$here/package-lock.json" "$into/"
# Install scripts are not run: nothing here needs one, and they are code of others.
(cd "$into" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) ||
    { echo "npm could not install them (the lines above say why); run the same command again" >&2; exit 1; }
echo "$content" > "$into/installed"
