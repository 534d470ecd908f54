#!/usr/bin/env bash
# Installs Debian's Chromium and its WebDriver server, with a font, where the browser tests would miss them.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/tools/package.sh

command -v chromedriver >/dev/null && command -v chromium >/dev/null \
    || package chromium chromium-driver fonts-dejavu-core
