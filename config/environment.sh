#!/bin/sh
# Makes .venv and installs a lock file into it, unless that very content is installed already.
#   sh config/environment.sh requirements.lock | tests/requirements.lock | uv
# tests/requirements.lock holds everything of requirements.lock too. uv comes through pip into .tools; where it cannot be
# had, pip itself does the work. No package registry is named here: pip's and uv's own configuration applies.
set -eu

fail() { echo "$1" >&2; exit 1; }

# Running it is the only proof: pyenv's shims are on PATH for versions that are not active, and fail.
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }

find_python() {
    for name in ${PYTHON:-} python3.13 python3.14 python3.12 python3; do
        if is_new_enough "$name"; then echo "$name"; return; fi
    done
    for name in "${PYENV_ROOT:-${HOME:-/root}/.pyenv}"/versions/3.1[2-9]*/bin/python3; do
        if is_new_enough "$name"; then echo "$name"; return; fi
    done
    fail "No Python 3.12 or newer found: install one, or name it: PYTHON=/path/of/python3.13 make up"
}

ensure_uv() {
    [ -x .tools/bin/uv ] && return
    if ! [ -x .tools/bin/pip ]; then
        "$(find_python)" -m venv .tools 2>/dev/null || return 1
    fi
    .tools/bin/pip install -q --disable-pip-version-check 'uv>=0.9,<1' 2>/dev/null
}

install() {
    echo "Installing $1 into .venv …" >&2
    if ensure_uv; then
        .tools/bin/uv pip install -q --python .venv/bin/python --require-hashes -r "$1"
    else
        .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
        .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r "$1"
    fi
}

if [ "$1" = uv ]; then
    ensure_uv || fail "uv could not be installed through pip: check pip's access to a package registry"
    exit 0
fi

if ! [ -x .venv/bin/python ] || ! is_new_enough .venv/bin/python; then
    python=$(find_python)
    echo "Making .venv with $("$python" -V) …" >&2
    "$python" -m venv --clear --without-pip .venv ||
        fail "$python cannot make a virtual environment: install its venv package (Debian: python3-venv)"
fi

# tests/requirements.lock satisfies requirements.lock: after `make test`, `make up` installs nothing.
stamp=.venv/installed.lock
content=$(cat requirements.lock "$1" | cksum)
if [ -f "$stamp" ] && grep -qxF "$content" "$stamp"; then exit 0; fi
rm -f "$stamp"
install "$1" || fail "Installing $1 failed (the lines above say why); run the same command again"
case "$1" in
    requirements.lock) echo "$content" > "$stamp" ;;
    *) { echo "$content"; cat requirements.lock requirements.lock | cksum; } > "$stamp" ;;
esac
