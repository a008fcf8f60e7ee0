"""What the demo's steps do. Real work on real files; the one failure is real too."""

from __future__ import annotations

import hashlib
import keyword
import os
import re
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pgtasker import PermanentError, StepContext, TransientError, Worker
from pgtasker import shell as programs
from pgtasker.cli.handlers import add_built_in

KNOCKS_NEEDED = 2
_WORD = re.compile(r"\w+")
_MOST_FILES = 400
_NOT_WALKED = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "lib2to3"}

worker = Worker(namespaces=["demo"], concurrency=8, poll_interval=1.0)


def source_folders() -> list[Path]:
    """Folders to look for text in, best first: Python's library, then what other systems have."""
    return [Path(sysconfig.get_paths()["stdlib"]), Path("/usr/share/common-licenses"), Path("/usr/share/doc")]


def find_files(at_least: int) -> tuple[Path, list[Path]]:
    """The first source folder with enough files, and its files sorted by path: ``*.py`` if it has any, else all.

    Raises PermanentError where no folder has that many.
    """
    for folder in source_folders():
        files = list(_walk(folder))
        files = [file for file in files if file.suffix == ".py"] or files
        if len(files) >= at_least:
            return folder, files[:_MOST_FILES]
    raise PermanentError(f"no folder of {[str(folder) for folder in source_folders()]} has {at_least} files")


def _walk(folder: Path) -> Iterator[Path]:
    """The regular files below a folder, sorted, without tests and installed packages."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_WALKED)
        yield from (file for name in sorted(names) if (file := Path(parent, name)).is_file())


@worker.step("discover")
def discover(ctx: StepContext) -> dict[str, Any]:
    """Find the files and deal them out: ``{"folder", "files", "bytes", "chunks": [[path, ...], ...]}``."""
    chunks = int(ctx.arguments["chunks"])
    folder, files = find_files(chunks)
    names = [str(file.relative_to(folder)) for file in files]
    return {
        "folder": str(folder),
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "chunks": [names[index::chunks] for index in range(chunks)],
    }


@worker.step("count")
def count(ctx: StepContext) -> dict[str, Any]:
    """Read one chunk: lines, words, bytes, Python keywords, the longest file and a digest of each file."""
    found = ctx.inputs["discover"]
    folder = Path(found["folder"])
    lines = words = size = 0
    keywords: Counter[str] = Counter()
    longest = {"file": "", "lines": 0}
    digests: list[str] = []
    for name in found["chunks"][ctx.arguments["chunk"]]:
        content = (folder / name).read_bytes()
        text = content.decode("utf-8", errors="replace")
        all_words = _WORD.findall(text)
        line_count = text.count("\n")
        lines += line_count
        words += len(all_words)
        size += len(content)
        keywords.update(word for word in all_words if keyword.iskeyword(word))
        if line_count > longest["lines"]:
            longest = {"file": name, "lines": line_count}
        digests.append(f"{hashlib.sha256(content).hexdigest()}  {name}")
    return {
        "files": len(digests),
        "lines": lines,
        "words": words,
        "bytes": size,
        "keywords": dict(keywords),
        "longest": longest,
        "digests": digests,
    }


@worker.step("totals")
def totals(ctx: StepContext) -> dict[str, Any]:
    """Add the chunks up."""
    counted: list[dict[str, Any]] = list(ctx.inputs.values())
    keywords: Counter[str] = Counter()
    for chunk in counted:
        keywords.update(chunk["keywords"])
    return {
        **{name: sum(chunk[name] for chunk in counted) for name in ("files", "lines", "words", "bytes")},
        "chunks": len(counted),
        "keywords": dict(keywords),
        "longest": max((chunk["longest"] for chunk in counted), key=lambda longest: int(longest["lines"])),
    }


@worker.step("averages")
def averages(ctx: StepContext) -> dict[str, float]:
    """Per file and per line."""
    total = ctx.inputs["totals"]
    return {
        "lines_per_file": round(total["lines"] / total["files"], 1),
        "words_per_line": round(total["words"] / max(total["lines"], 1), 2),
        "bytes_per_file": round(total["bytes"] / total["files"], 1),
    }


@worker.step("keyword_ranking")
def keyword_ranking(ctx: StepContext) -> dict[str, Any]:
    """The ten keywords used most, and the totals for the report."""
    total = ctx.inputs["totals"]
    ranking = sorted(total.pop("keywords").items(), key=lambda item: (-item[1], item[0]))
    return {"ranking": ranking[:10], "totals": total}


@worker.step("fingerprint")
async def fingerprint(ctx: StepContext) -> dict[str, Any]:
    """One digest over all files whatever their order: the tool ``sort`` does the sorting."""
    digests = "".join(f"{line}\n" for chunk in ctx.inputs.values() for line in chunk["digests"])
    done = await programs.run(
        ["sort"],
        stdin=digests.encode(),
        env={"LC_ALL": "C"},
        max_output_bytes=len(digests.encode()),
        timeout_seconds=30,
    )
    if done.exit_code != 0:
        raise RuntimeError(f"sort exited with {done.exit_code}: {done.stderr.strip()}")
    return {"sha256": hashlib.sha256(done.stdout.encode()).hexdigest(), "lines": digests.count("\n")}


@worker.step("open_outbox")
def open_outbox(ctx: StepContext) -> dict[str, Any]:
    """Look for the folder that reports go to. The doorman opens it after two knocks, so the first two attempts fail."""
    folder = _folder(ctx)
    outbox = folder / "outbox"
    try:
        inside = len(list(outbox.iterdir()))
    except FileNotFoundError as error:
        knocks = _knock(folder)
        raise TransientError(f"no outbox yet: {error} (knock {knocks} of {KNOCKS_NEEDED})") from error
    return {"outbox": str(outbox), "reports_inside": inside, "attempt": ctx.attempt}


def _knock(folder: Path) -> int:
    """The doorman, a stand-in for another system that is not ready yet: opens the outbox after enough knocks."""
    with (folder / "knocks").open("a", encoding="utf-8") as book:
        book.write("knock\n")
    knocks = (folder / "knocks").read_text(encoding="utf-8").count("\n")
    if knocks >= KNOCKS_NEEDED:
        (folder / "outbox").mkdir(exist_ok=True)
    return knocks


@worker.step("report")
def report(ctx: StepContext) -> dict[str, str]:
    """Write the report into the outbox; running it twice gives the same file."""
    inputs = ctx.inputs
    ranking = inputs["keyword-ranking"]
    text = "\n".join(
        _report_lines(
            ranking["totals"], inputs["averages"], ranking["ranking"], inputs["fingerprint"], inputs["machine"]
        )
    )
    path = Path(inputs["outbox"]["outbox"]) / "report.txt"
    path.write_text(text + "\n", encoding="utf-8")
    return {"path": str(path), "text": text}


def _report_lines(
    total: dict[str, Any],
    average: dict[str, float],
    ranking: Iterable[tuple[str, int]],
    digest: dict[str, Any],
    machine: dict[str, Any],
) -> list[str]:
    return [
        f"Python {sys.version_info.major}.{sys.version_info.minor}'s standard library on {machine['stdout'].strip()}",
        f"  {total['files']:,} files in {total['chunks']} chunks, {total['lines']:,} lines, {total['words']:,} words, "
        f"{total['bytes']:,} bytes",
        f"  a file has {average['lines_per_file']:,} lines on average, a line {average['words_per_line']} words",
        f"  longest: {total['longest']['file']} with {total['longest']['lines']:,} lines",
        "  words that are keywords: " + ", ".join(f"{word} {count:,}" for word, count in ranking),
        f"  fingerprint of all {digest['lines']:,} files: {digest['sha256']}",
    ]


def _folder(ctx: StepContext) -> Path:
    """The folder named by the task's context, else one of its own below the temporary folder; made if missing."""
    named = (ctx.context or {}).get("folder")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / f"pgtasker-demo-{ctx.task_uuid}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


add_built_in(worker)
