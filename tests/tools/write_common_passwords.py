"""Writes token-service/secrets/src/common_passwords.txt, which the rules for chosen passwords read. Needs npm and pip.

The sources are the lists of two packages. The npm package @zxcvbn-ts/language-common has the passwords that more than ten of ten million
leaked accounts had in 2015. Django has the 20,000 most frequent passwords of Have I Been Pwned.

Each password is written as `plain` in password_rules.rs writes it, without the digits and symbols at its ends. If fewer than four letters
are left, the whole password is written, unless it is so short that the service refuses every such password.
"""

import gzip
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ZXCVBN = "@zxcvbn-ts/language-common@4.1.3"
DJANGO = "Django==5.2.19"
LEAST = 8
FEWEST_LETTERS = 4

PLAIN = str.maketrans("013457@$!l", "oieastasii")


def plain(text):
    return "".join(filter(str.isalnum, text.translate(PLAIN)))


def word(password):
    letters = [place for place, letter in enumerate(password) if letter.isalpha()]
    middle = password[letters[0] : letters[-1] + 1] if letters else ""
    if len(plain(middle)) >= FEWEST_LETTERS:
        return plain(middle)
    return plain(password) if len(password) >= LEAST else ""


def archive(folder, pattern, *command):
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    [path] = pathlib.Path(folder).glob(pattern)
    return path


with tempfile.TemporaryDirectory() as folder:
    with tarfile.open(archive(folder, "*.tgz", "npm", "pack", "--silent", ZXCVBN)) as package:
        passwords = json.load(package.extractfile("package/src/passwords.json"))
        licences = {ZXCVBN: package.extractfile("package/LICENSE.txt").read().decode()}
    with zipfile.ZipFile(archive(folder, "*.whl", sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", DJANGO)) as package:
        passwords += gzip.decompress(package.read("django/contrib/auth/common-passwords.txt.gz")).decode().split("\n")
        [licence] = [name for name in package.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
        licences[DJANGO] = package.read(licence).decode()

words = {word(password.lower()) for password in passwords if password.isascii()} - {""}
lines = [
    "Written by tests/tools/write_common_passwords.py from lists of two packages, whose licences are below.",
    "People chose these words. Many are offensive.",
]
for name, licence in licences.items():
    lines += ["", f"{name}:", "", *licence.strip().splitlines()]
header = "".join(f"# {line}".rstrip() + "\n" for line in lines)
repository = pathlib.Path(__file__).resolve().parents[2]
target = repository / "token-service/secrets/src/common_passwords.txt"
target.write_text(header + "".join(f"{word}\n" for word in sorted(words)))
