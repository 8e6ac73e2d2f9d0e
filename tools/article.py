"""Print the article, nbs/papers/report.ipynb with the outputs that it keeps:

python tools/article.py                       write _article/article.html, and article.pdf where there is a Chromium
python tools/article.py --out FOLDER          write both elsewhere
python tools/article.py --anonymous           write anonymous.tar.gz, too: all committed files without their
                                              history, authors and address

The HTML is one file: figures are inside, and links lead to the repository. It fails where more than eight pages are
printed: seven of text, and the references, which begin a page. The name of the package stays in the anonymous files,
since code imports it; records name commits, which are not in it.
"""
import argparse
import io
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

from debias_nb.papers.pages.report import seen_from_page
from notebooks import ROOT, settings

NAME = "report"
MOST = 8 # pages: seven of text, and the references
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LINK = re.compile(r"\]\((?!https?://|#)([^)\s]+)\)")
PAGE = re.compile(rb"/Type\s*/Page\b")
ANONYMOUS = "https://anonymous.example/artifact"


class ArticleError(ValueError):
    "An article that cannot be printed as it should be."


def repository() -> str:
    "Return the address of the committed files."
    config = settings()
    return f"{config['git_url']}/blob/{config['branch']}"


def absolute(text: str, address: str) -> str:
    "Return Markdown of the notebook with links that are right anywhere."
    def other(match):
        return f"]({address}/{posixpath.normpath(posixpath.join('reports', match[1]))})"
    return LINK.sub(other, seen_from_page(text, NAME))


def article(notebook: Path, address: str) -> str:
    "Return the notebook as one HTML file: text, tables and figures, without code."
    book = nbformat.read(notebook, as_version=4)
    book.cells = [cell for cell in book.cells if cell.cell_type != "raw"]
    for cell in book.cells:
        if cell.cell_type == "markdown":
            cell.source = absolute(cell.source, address)
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" not in data and "text/markdown" in data:
                data["text/markdown"] = absolute(data["text/markdown"], address)
    exporter = HTMLExporter(exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True)
    html, _ = exporter.from_notebook_node(book, {"metadata": {"name": title_of(book)}})
    return html


def title_of(book: nbformat.NotebookNode) -> str:
    "Return the heading of a notebook."
    return book.cells[0].source.splitlines()[0].removeprefix("# ")


def browser() -> str | None:
    "Return a Chromium, or None where there is none."
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def print_pages(html: Path, pdf: Path, program: str) -> int:
    "Print a file, and return the number of pages. Raises `ArticleError`."
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    done = subprocess.run([program, *options, f"--print-to-pdf={pdf}", html.as_uri()], capture_output=True, text=True)
    if not pdf.is_file():
        raise ArticleError(f"{program} printed nothing: {done.stderr.strip()[-300:]}")
    return len(PAGE.findall(pdf.read_bytes()))


def without_names(content: bytes) -> bytes:
    "Return a committed file without the project's address and authors; what is no text stays as it is."
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return content
    config = settings()
    names = {
        config["git_url"]: ANONYMOUS, config["doc_host"] + config["doc_baseurl"]: ANONYMOUS,
        config["doc_host"]: "https://anonymous.example",
        f"{config['user']}/{config['repo']}": "anonymous/artifact", config["author_email"]: "anonymous@example.org",
        config["author"]: "Anonymous authors", config["author"][:1].lower() + config["author"][1:]: "anonymous authors"}
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text.encode("utf-8")


def pack_anonymous(path: Path) -> None:
    "Write the committed files without their history, authors and address."
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", "--prefix=artifact/", "HEAD"], capture_output=True,
                            check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files, tarfile.open(path, "w:gz") as anonymous:
        for file in files:
            content = without_names(files.extractfile(file).read()) if file.isfile() else b""
            file.size = len(content)
            anonymous.addfile(file, io.BytesIO(content))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "_article", help="folder of what is written")
    parser.add_argument("--anonymous", action="store_true",
                        help="without authors and address; packs all committed files, too")
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out.resolve()
    html = article(ROOT / "nbs" / "papers" / f"{NAME}.ipynb", repository())
    if args.anonymous:
        html = without_names(html.encode("utf-8")).decode("utf-8")
        pack_anonymous(out / "anonymous.tar.gz")
    path = out / "article.html"
    path.write_text(html, "utf-8")
    program = browser()
    if program is None:
        print(f"{path}: there is no Chromium to print it")
        return
    try:
        pages = print_pages(path, out / "article.pdf", program)
    except ArticleError as error:
        sys.exit(str(error))
    print(f"{out / 'article.pdf'}: {pages} pages")
    if pages > MOST:
        sys.exit(f"at most {MOST} pages are allowed")


if __name__ == "__main__":
    main()
