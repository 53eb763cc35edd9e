#!/bin/sh
# Runs manage.py with the settings of a deployment, as its units do:  sh deploy/manage.sh check --deploy
# Reads environment, and where this user may operator.environment and owner.environment, from ETC (/etc/toolsys).
set -eu
cd "$(dirname "$0")/.."
for file in environment operator.environment owner.environment; do
    [ -r "${ETC:=/etc/toolsys}/$file" ] || continue
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in '' | '#'*) ;; *=*) export "$line" ;; esac
    done <"$ETC/$file"
done
exec "${PYTHON:-.venv/bin/python}" manage.py "$@"
