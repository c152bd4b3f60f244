"""Plain technical English: words that names, messages and docstrings avoid.

docs/glossary.md has the word to use for each thing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BANNED = {
    "report, send, return, notify": r"tell|tells|told|telling",
    "request, query, prompt": r"ask|asks|asked|asking",
    "return, show, state, log": r"say|says|said|saying",
    "receive, listen to": r"hear|hears|heard",
    "stored, registered, cached": r"know|knows|knew",
    "delete, drop, revoke": r"forget|forgets|forgot|forgotten",
    "cache, store, record": r"remember|remembers|remembered",
    "requested, pending, required": r"want|wants|wanted|wish|wishes|wished",
    "accept, trust, validate": r"believe|believes|believed",
    "is, is stored, is shown": r"stands|stood|lies",
    "app context, module, gate": r"house",
    "scheduler": r"clockwork",
    "full sync, poll, incremental sync": r"walk|walks|walked|look-back|look-backs",
    "lookup": r"look-up|look-ups",
    "verify, completeness": r"prove|proves|proved|proof|proofs|ledger",
    "complete, healthy": r"settled|all is well",
    "client, user, any": r"whoever|whomever|somebody|someone|nobody|anybody",
    "local, the account's": r"ours|our own|of one's own",
    "recompute, retry, repeat": r"anew",
    "a time, permanently": r"meanwhile|for good|by then",
    "automatically": r"by itself|by themselves",
    "deleted, unreachable, ended": r"gone",
    "cancelled, aborted, truncated": r"broken off|broke off|breaks off",
    "compute, join": r"put together|puts together",
    "action, label": r"deed|deeds",
    "cannot": r"can't|don't|doesn't|isn't|won't",
    "the message without it": r"please|shall|something went wrong",
}
"""Replacement: regular expression of the words, matched as whole words in any case."""

EXCEPTIONS = re.compile(
    r"`[^`]*`"  # code
    r"|house\.db|callback_deeds|proved_at|days_proved|call_gone|gone_at"  # names of interfaces
    r"|THIS EXPORT BROKE OFF AFTER AN ERROR"  # the truncation marker, a format of files
    r"|410 Gone",
    re.IGNORECASE,
)
_PATTERN = re.compile(rf"\b(?:{'|'.join(BANNED.values())})\b", re.IGNORECASE)

_TEXT_CALLS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_TEXT_KEYWORDS = frozenset({"help", "description", "short_help", "epilog"})
_BANNED_NAME_PART = re.compile("|".join([*BANNED.values(), "whole"]))
"""Words that names of functions, classes, parameters, variables and attributes avoid."""

NAME_EXCEPTIONS = frozenset(
    {
        "walk_key", "walk_rows", "walked_from", "gone_at", "asked_at", "proved_at", "ours",  # columns
        "again", "gone",  # keys of /readyz and of results of commands
        "WholeNumber", "_parse_whole_number",  # whole numbers
    }
)  # fmt: skip
"""Names of interfaces, and a standard term."""


BANNED_ON_PAGES = {
    "report, notify, send": r"tell|tells|told|telling",
    "play, receive": r"hear|hears|heard",
    "save, stay, delete": r"kept|keeps|keeping|forget|forgotten",
    "is, is shown": r"stands|stood",
    "sync": r"walk|walks|walked|walking|look-back|re-read|mirror|mirrored|mirrors",
    "check, compare": r"prove|proves|proved|proof|proofs",
    "attempts": r"tries|tried",
    "default": r"as usual|usually",
    "transfer": r"pass on|passed on|passes on|pass the call",
    "missed calls": r"misses",
    "phone system": r"platform|platform's|platform’s",
    "everyone, no one, unassigned": r"nobody|somebody|everybody|anybody|whoever|whomever",
    "automatically": r"by itself|by themselves",
    "remove": r"take off|taken off|take it off",
    "import, assemble": r"put together|puts together",
    "request, query, prompt": r"ask for|asked|asks",
    "an actor and a verb": r"says|said|saying|wants|wanted|knows|knew|believe|believed",
    "inbound, outbound, abandoned, in progress": r"came in|went out|hung up early|going on",
    "template": r"canned",
    "claim, release": r"give back|given back",
    "deleted, unreachable, ended": r"gone",
    "instead, until then": r"meanwhile|for good|by then|anew",
    "scheduler": r"clockwork",
    "this computer": r"machine",
    "the message without it": r"please|shall|not done:",
    "what happened and what to do": r"something went wrong",
    "no problems": r"all well",
}
"""Like BANNED, for the words that users read: pages, their scripts, toasts, alerts and e-mails.

Pages allow contractions and call the platform "phone system".
"""
_PAGE_PATTERN = re.compile(
    rf"(?<![\w-])(?:{'|'.join(BANNED_ON_PAGES.values())})(?![\w-])|^(?:What|Whether|Which)\b(?!.*\?)",
    re.IGNORECASE,
)
PAGE_EXCEPTIONS = {
    "Mark as heard": "the action on a voice message",
    "Marked as heard.": "its result",
    "Marked as heard here only. ": "its result without the phone system",
    "kept no longer by retention": "a stored state, which the page translates",
    "The platform does not document its fields.": "the API reference for programmers says platform",
    ", or forgotten": "the usual word for a lost password",
}
"""Whole text on a page: reason why it may have a banned word."""
_PAGE_CODE = re.compile(r"<(script|style)\b.*?</\1>|<!--.*?-->|<code\b.*?</code>", re.DOTALL)
_PAGE_ATTRIBUTE = re.compile(
    r"""\b(?:title|aria-label|placeholder|alt|label|data-confirm)="((?:{{.*?}}|{%.*?%}|[^"])*)\""""
)
_JINJA = re.compile(r"{#.*?#}|{{.*?}}|{%.*?%}", re.DOTALL)
_TEXT_LITERAL = re.compile(r'"([^"\n]*)"|`([^`]*)`')


def find_banned(text: str) -> list[str]:
    """Return the banned words in `text`."""
    return _PATTERN.findall(EXCEPTIONS.sub("", text))


def find_banned_on_pages(text: str) -> list[str]:
    """Return the words in `text` that pages avoid."""
    return [] if text in PAGE_EXCEPTIONS else [match[0] for match in _PAGE_PATTERN.finditer(text.strip())]


def list_template_texts(source: str) -> Iterator[tuple[int, str]]:
    """Return the texts that users read, with their lines: between tags, in attributes and in expressions."""
    source = re.sub(r"{#.*?#}", lambda comment: "\n" * comment[0].count("\n"), source, flags=re.DOTALL)

    def line_of(position: int) -> int:
        return source.count("\n", 0, position) + 1

    for match in _PAGE_ATTRIBUTE.finditer(source):
        yield line_of(match.start()), " ".join(_JINJA.sub(" ", match[1]).split())
    for expression in _JINJA.finditer(source):
        for match in _TEXT_LITERAL.finditer(expression[0]):
            if is_text(match[1] or ""):
                yield line_of(expression.start() + match.start()), match[1]
    blank = lambda part: re.sub(r"[^\n]", " ", part[0])  # noqa: E731 -- keeps the line numbers
    visible = _PAGE_CODE.sub(blank, source)
    visible = _JINJA.sub(lambda part: "\x00" + blank(part)[1:], visible)
    visible = re.sub(r"<[^>]*>", lambda part: "\x00" + blank(part)[1:], visible)
    for match in re.finditer(r"[^\x00]+", visible):
        if match[0].strip():
            yield line_of(match.start() + len(match[0]) - len(match[0].lstrip())), " ".join(match[0].split())


def list_script_texts(source: str) -> Iterator[tuple[int, str]]:
    """Return the string literals of a script that read like words, with their lines."""
    for number, line in enumerate(source.splitlines(), 1):
        for match in _TEXT_LITERAL.finditer(line):
            text = match[1] or match[2] or ""
            if is_text(text):
                yield number, text


def list_module_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return the string constants of a module that read like words, without docstrings, SQL and log lines."""
    ignored = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _TEXT_CALLS
        )
        for inner in ast.walk(node.value if isinstance(node, ast.Expr) else node)
        if isinstance(node, ast.Call) or inner is node.value
    }
    sql = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|JOIN)\b")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in ignored:
            continue
        if is_text(node.value) and not sql.search(node.value):
            yield node.lineno, node.value


def is_text(literal: str) -> bool:
    """Return whether a literal is shown to users: a capital letter first, or several words."""
    return bool(re.match(r"\s*[A-Z][a-z]|.*[A-Za-z’,.:]\s+[A-Za-z]", literal))


def list_page_modules() -> list[Path]:
    """Modules whose texts users read on pages and in e-mails."""
    package = ROOT / "integration"
    return [
        *sorted((package / "dashboard").rglob("*.py")),
        *(package / "alerts" / name for name in ("conditions.py", "messages.py")),
        package / "access" / "login" / "mailer.py",
        package / "mirror" / "page_queries" / "call_view.py",
        package / "exports" / "jobs.py",
        package / "workspace" / "call_labels.py",
    ]


def list_page_sources() -> list[Path]:
    return [
        *sorted((ROOT / "templates").rglob("*.html")),
        *sorted((ROOT / "static").rglob("*.js")),
        *list_page_modules(),
    ]


def list_page_texts(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text("utf-8")
    if path.suffix == ".html":
        return list_template_texts(source)
    return list_script_texts(source) if path.suffix == ".js" else list_module_texts(ast.parse(source))


def list_modules() -> list[Path]:
    return [*sorted((ROOT / "integration").rglob("*.py")), ROOT / "app.py"]


def list_test_modules() -> list[Path]:
    return sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
DOCUMENTED = (*DEFINITIONS, ast.Module)


def list_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names that the nodes define, with their lines."""
    for node in nodes:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id, node.lineno
        elif isinstance(node, DEFINITIONS):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


@cache
def has_banned_part(name: str) -> bool:
    parts = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
    return name not in NAME_EXCEPTIONS and any(map(_BANNED_NAME_PART.fullmatch, parts))


def list_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return first docstring lines and texts of errors, logs and help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.lineno, node.value.value.strip().partition("\n")[0]
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _list_constants(node.exc)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_CALLS:
                yield from _list_constants(node)
            for keyword in node.keywords:
                if keyword.arg in _TEXT_KEYWORDS:
                    yield from _list_constants(keyword.value)


def _list_constants(node: ast.AST) -> Iterator[tuple[int, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.lineno, inner.value


def test_texts_avoid_banned_words() -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {', '.join(words)}: {text[:80]}"
        for module in list_modules()
        for line, text in list_texts(ast.parse(module.read_text("utf-8")))
        if (words := find_banned(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("list_sources", [list_modules, list_test_modules])
def test_names_are_plain(list_sources: Callable[[], list[Path]]) -> None:
    found = []
    for module in list_sources():
        path = module.relative_to(ROOT)
        nodes = list(ast.walk(ast.parse(module.read_text("utf-8"))))
        found += [f"{path}:{line}: name {name}" for name, line in list_names(nodes) if has_banned_part(name)]
    assert not found, "\n".join(found)


def test_banned_names_are_found() -> None:
    module = (
        '"""A module."""\ndef test_nobody_knows(said, *told): whole, x.again = 1, 2\nclass AskTwice: pass\n'
    )
    nodes = list(ast.walk(ast.parse(module)))
    names = [name for name, _ in list_names(nodes) if has_banned_part(name)]
    assert sorted(names) == ["AskTwice", "said", "test_nobody_knows", "told", "whole"]


def test_the_words_are_found() -> None:
    tree = ast.parse('"""Tell nobody."""\nraise ValueError("nobody knows")\nlog.info("asked again")\n')
    words = [word for _, text in list_texts(tree) for word in find_banned(text)]
    assert words == ["Tell", "nobody", "nobody", "knows", "asked"]


def test_texts_on_pages_avoid_banned_words() -> None:
    found = [
        f"{source.relative_to(ROOT)}:{line}: {', '.join(words)}: {text[:100]}"
        for source in list_page_sources()
        for line, text in list_page_texts(source)
        if (words := find_banned_on_pages(text))
    ]
    assert not found, "\n".join(found)


def test_banned_words_on_pages_are_found() -> None:
    template = """{# nobody #}<h2 title="Told by {{ name }}">{{ "kept here" if x else "Saved" }}</h2>
<p class="gone">What is watched</p><p>The {{ n }} tries</p><code>kept</code>
<p>Which
number?</p>"""
    assert [(line, find_banned_on_pages(text)) for line, text in list_template_texts(template)] == [
        (1, ["Told"]), (1, ["kept"]), (1, []), (2, ["What"]), (2, []), (2, ["tries"]), (3, []),
    ]  # fmt: skip
    script = 'toast("The platform was told", `kept`); x.className = "kept";'
    assert [words for _, text in list_script_texts(script) for words in find_banned_on_pages(text)] == [
        "platform",
        "told",
    ]
    module = (
        'DONE = "Note kept."\nlog.info("kept %s rows", 1)\ndef f():\n    """Walk on."""\n    return "walk"'
    )
    assert [find_banned_on_pages(text) for _, text in list_module_texts(ast.parse(module))] == [["kept"]]


def test_config_example_avoids_banned_words() -> None:
    assert find_banned((ROOT / "config.example.toml").read_text("utf-8")) == []


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))], ids=lambda path: path.name
)
def test_pages_avoid_banned_words(page: Path) -> None:
    found = [
        f"{page.name}:{number}: {', '.join(words)}"
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if (words := find_banned(line))
    ]
    assert not found, "\n".join(found)
