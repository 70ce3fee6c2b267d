#!/bin/sh
# Look the pinned dependencies up in a database of known weaknesses. Without the tool or a network this says so and
# passes: a build must not depend on somebody else's server. A weakness that is found fails.
#   tools/audit_deps.sh PYTHON
python=$1
if ! "$python" -m pip_audit --version >/dev/null 2>&1; then
    # Beside the project's environment, whose versions are pinned.
    aside=$(mktemp -d)
    trap 'rm -rf "$aside"' EXIT
    "$python" -m venv "$aside" && timeout 120 "$aside/bin/python" -m pip install --quiet pip-audit==2.10.1 >/dev/null 2>&1
    python=$aside/bin/python
fi
if ! "$python" -m pip_audit --version >/dev/null 2>&1; then
    echo "dependencies not audited: pip-audit is not installed and cannot be fetched"
    exit 0
fi
out=$(timeout 300 "$python" -m pip_audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off 2>&1)
status=$?
if [ $status -ne 0 ] && ! echo "$out" | grep -q "known vulnerabilit"; then
    echo "$out" | tail -n 1
    echo "dependencies not audited: the database cannot be reached"
    exit 0
fi
pinned=$(grep -c "==" constraints.txt)
unknown=$(echo "$out" | grep -c "could not be audited")
if [ "$unknown" -ge "$pinned" ]; then
    echo "dependencies not audited: the database that was reached knows none of the $pinned packages"
    exit 0
fi
echo "$out" | grep -v "could not be audited"
echo "$((pinned - unknown)) of $pinned pinned dependencies looked up"
exit $status
