"""Builds the site of the pages with mdBook, and follows every link within it: build.py MDBOOK FOLDER.

The chapters are README.md and the pages that docs/README.md lists, in its order, and then all pages to which these lead. Pages and
the files that they link to keep their places, so that links work as they are. A folder without a README.md gets a list of its files."""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = pathlib.PurePath("docs/README.md")
LINK = re.compile(r"\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)")


def linked(page, text):
    """What a page links to in the repository, each with the text of the link."""
    for title, link in LINK.findall(text):
        path = urllib.parse.urldefrag(link).url
        target = (ROOT / page.parent / path).resolve()
        if path and target.exists():
            yield title, target.relative_to(ROOT)


def place(pages, path):
    """Puts a file into the folder of mdBook's sources. Returns its path there and, for a page, its text."""
    if (ROOT / path).is_dir():
        readme = path / "README.md"
        if not (ROOT / readme).exists():
            command = ["git", "ls-files", "."]
            names = subprocess.run(command, cwd=ROOT / path, check=True, capture_output=True, text=True).stdout.split()
            for name in names:
                place(pages, path / name)
            text = f"# {path}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
            (pages / readme).write_text(text)
            return readme, text
        path = readme
    (pages / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / path, pages / path)
    return path, (ROOT / path).read_text() if path.suffix == ".md" else ""


def summary(pages):
    """Puts all pages into the folder of mdBook's sources. Returns the list of the chapters."""
    column = [row.split(" | ")[0] for row in (ROOT / INDEX).read_text().splitlines() if row.startswith("| ")]
    chapters = {pathlib.PurePath("README.md"): "Gatepass", INDEX: "Documentation"}
    for title, path in linked(INDEX, "\n".join(column)):
        chapters.setdefault(path, title[0].upper() + title[1:])
    headings, waiting = {}, list(chapters)
    while waiting:
        page, text = place(pages, waiting.pop())
        if page.suffix == ".md" and page not in headings:
            headings[page] = re.search(r"^# (.*)", text, re.MULTILINE)[1]
            waiting += [target for _, target in linked(page, text) if target not in headings]
    listed = [f"- [{title}]({path})" for path, title in chapters.items() if path in headings]
    more = [f"- [{title}]({path})" for path, title in sorted(headings.items()) if path not in chapters]
    return "\n".join([*listed, "", "# More", "", *more]) + "\n"


class Page(html.parser.HTMLParser):
    """The identifiers of an HTML page, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def broken(site):
    """Links within the site that lead nowhere."""
    book = site / "book"
    # Not HTML of the repository. mdBook's page for printing joins all others, and 404.html has the address of the site.
    is_page = lambda path: not (site / "pages" / path.relative_to(book)).exists() and path.name not in ("print.html", "404.html")
    pages = {path: Page(path) for path in filter(is_page, book.rglob("*.html"))}
    assert len(pages) > 30, f"{len(pages)} pages"
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists() or url.fragment and target in pages and url.fragment not in pages[target].ids:
                yield f"{path.relative_to(book)}: {link}"


def main():
    mdbook, site = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    shutil.rmtree(site, ignore_errors=True)
    pages = site / "pages"
    pages.mkdir(parents=True)
    shutil.copy(ROOT / "docs/site/book.toml", site)
    (pages / "SUMMARY.md").write_text(summary(pages))
    subprocess.run([mdbook, "build", site], check=True)
    # Links to README.md lead to README.html, but mdBook calls that page index.html.
    for index in (site / "book").rglob("index.html"):
        if not (pages / index.relative_to(site / "book")).exists():
            shutil.copy(index, index.with_name("README.html"))
    if wrong := sorted(broken(site)):
        sys.exit("Links that lead nowhere:\n" + "\n".join(wrong))
    assert list((site / "book").glob("searchindex*.js")), "no search"
    print(f"The site is {site / 'book' / 'index.html'}")


main()
