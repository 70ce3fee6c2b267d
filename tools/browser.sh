#!/bin/sh
# A browser for the tests that open the reports: one that is here, playwright's own, or the system's package.
#   tools/browser.sh PYTHON
# It never fails: without a browser those tests skip and say so.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null 2>&1 && exit 0
done
echo "fetching a browser for the tests of the reports (once)"
timeout 300 "$1" -m playwright install chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    timeout 300 apt-get install -y -qq chromium >/dev/null 2>&1 && exit 0
fi
echo "no browser could be installed: the tests that need one will skip"
exit 0
