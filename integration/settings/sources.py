"""Where settings come from: a TOML file and the environment, and every mistake in them at once.

pydantic-settings is not used: its environment source ignores misspelt sections, knows no `_FILE` and turns
text of digits into numbers.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from integration.core.errors import ConfigurationError

PREFIX = "SWITCHROOM_"
DEFAULT_FILE = Path("config.toml")
Model = TypeVar("Model", bound=BaseModel)


@dataclass
class Sources:
    """What was read: `values[section][key]`, where each came from, and what could not be read."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    file: Path | None = None
    complete: bool = True
    """False where the file could not be read, so that a missing key means nothing."""


def keys(model: type[BaseModel]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Every key of the settings model: section, key as written in TOML, its field."""
    for section, outer in model.model_fields.items():
        inner = outer.annotation
        assert isinstance(inner, type)
        assert issubclass(inner, BaseModel)
        for name, info in inner.model_fields.items():
            yield section, info.alias or name, info


def variable(section: str, key: str) -> str:
    """The environment variable of a key."""
    return f"{PREFIX}{section.upper()}__{key.upper()}"


def read(model: type[BaseModel], config: Path | None, environ: Mapping[str, str]) -> Sources:
    """Read the file (`config`, else $SWITCHROOM_CONFIG, else config.toml if there) and the environment."""
    sources = Sources()
    named = config or (Path(environ["SWITCHROOM_CONFIG"]) if environ.get("SWITCHROOM_CONFIG") else None)
    if named is not None or DEFAULT_FILE.exists():
        sources.file = named or DEFAULT_FILE
        _read_file(sources, sources.file)
    _read_environment(sources, model, environ)
    return sources


def _read_file(sources: Sources, path: Path) -> None:
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        sources.mistakes.append(f"{path}: can't be read: {error.strerror}")
    except UnicodeDecodeError as error:
        sources.mistakes.append(f"{path}: is not UTF-8 text (byte {error.start})")
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"^(.*) \(at (.*)\)$", str(error), re.DOTALL)
        sources.mistakes.append(f"{path}: {where[2]}: {where[1]}" if where else f"{path}: {error}")
    except RecursionError:
        sources.mistakes.append(f"{path}: is nested too deeply")
    else:
        for section, table in tables.items():
            if isinstance(table, dict):
                sources.values[section] = dict(table)
                sources.origins.update({f"{section}.{key}": str(path) for key in table})
            else:
                sources.mistakes.append(f"{section}: is no section ([{section}]) in {path}")
        return
    sources.complete = False


def _read_environment(sources: Sources, model: type[BaseModel], environ: Mapping[str, str]) -> None:
    known = {variable(section, key): (section, key, info) for section, key, info in keys(model)}
    for name in sorted(environ):
        if not name.startswith(PREFIX) or "__" not in name:
            continue
        plain = name if name in known else name.removesuffix("_FILE")
        if plain not in known:
            close = difflib.get_close_matches(name.upper(), known, 1)
            sources.mistakes.append(f"{name}: unknown variable{_hint(close)}")
            continue
        section, key, info = known[plain]
        text = environ[name]
        if plain != name:
            if plain in environ:
                sources.mistakes.append(f"{section}.{key}: both {plain} and {name} are set; keep one")
                continue
            try:
                text = Path(text).read_bytes().decode("utf-8-sig").rstrip("\r\n")
            except OSError as error:
                sources.mistakes.append(f"{section}.{key}: {name}: {text}: can't be read: {error.strerror}")
                continue
            except ValueError:
                sources.mistakes.append(f"{section}.{key}: {name}: {text}: is not UTF-8 text")
                continue
        try:
            value = _parse(info, text)
        except ValueError:
            sources.mistakes.append(f"{section}.{key}: {name}: is no JSON list")
            continue
        sources.values.setdefault(section, {})[key] = value
        sources.origins[f"{section}.{key}"] = name


def _parse(info: FieldInfo, text: str) -> Any:
    """Text of the environment as the kind its key takes; numbers and booleans are left to pydantic."""
    if _is_list(info):
        if text.lstrip().startswith("["):
            return json.loads(text)
        parts = [part.strip() for part in text.split(",")]
        return [part for part in parts if part] or (None if info.default is None else [])
    if text == "" and info.default is None:
        return None
    return text


def _is_list(info: FieldInfo) -> bool:
    return any(_has_tuple(option) for option in (info.annotation, *get_args(info.annotation)))


def _has_tuple(annotation: Any) -> bool:
    if hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    return get_origin(annotation) is tuple


def validate(model: type[Model], sources: Sources) -> Model:
    """`model` from what was read. Raises ConfigurationError with all mistakes, the sources' included."""
    mistakes = list(sources.mistakes)
    values: dict[str, dict[str, Any]] = {section: {} for section in model.model_fields} | sources.values
    settings: Model | None = None
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        fields = {f"{section}.{key}": info for section, key, info in keys(model)}
        for detail in error.errors(include_url=False):
            if detail["type"] == "missing" and not sources.complete:
                continue
            mistakes.append(_line(model, fields, sources, detail))
    if sources.complete:
        mistakes += _cross_checks(values)
    if settings is None or mistakes:
        raise ConfigurationError(list(dict.fromkeys(mistakes)))
    return settings


def _line(
    model: type[BaseModel], fields: Mapping[str, FieldInfo], sources: Sources, detail: Mapping[str, Any]
) -> str:
    """One of pydantic's errors as one line that names the key and never shows a secret."""
    section, *rest = (str(part) for part in detail["loc"])
    if not rest:
        return f"{section}: unknown section{_hint(difflib.get_close_matches(section, model.model_fields, 1))}"
    key = f"{section}.{rest[0]}"
    if key not in fields:
        return f"{key}: unknown key{_hint(difflib.get_close_matches(key, fields, 1))}"
    if detail["type"] == "missing" and len(rest) == 1:
        where = f"{sources.file} or " if sources.file else f"{DEFAULT_FILE} (there is none here) or "
        return f"{key}: is required; set it in {where}by {variable(section, rest[0])}"
    origin = sources.origins.get(key, "")
    at = f" ({origin})" if origin.startswith(PREFIX) else ""
    extra = fields[key].json_schema_extra
    value = detail.get("input")
    shown = ""
    if not (isinstance(extra, dict) and extra.get("secret")) and detail["type"] != "value_error":
        shown = f", not {value!r}" if len(repr(value)) <= 60 else ""
    return f"{key}{at}: {_reason(detail)}{shown}".replace("\n", " ")


def _reason(detail: Mapping[str, Any]) -> str:
    context = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    for prefix, words in (
        ("int_", "must be a whole number"),
        ("float_", "must be a number"),
        ("finite_number", "must be a number"),
        ("bool_", "must be true or false"),
        ("string_too_short", "must not be empty"),
        ("string_", 'must be text, in quotes ("…")'),
        ("path_", "must be a path, in quotes"),
        ("too_short", "has too few entries"),
        ("too_long", "has too many entries"),
        ("tuple_type", "must be a list"),
        ("list_type", "must be a list"),
        ("missing", "has too few entries"),
        ("greater_than_equal", f"must be at least {context.get('ge')}"),
        ("greater_than", f"must be more than {context.get('gt')}"),
        ("less_than_equal", f"must be at most {context.get('le')}"),
    ):
        if kind.startswith(prefix):
            return words
    return str(detail["msg"])


def _cross_checks(values: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Mistakes between keys. They look only at presence, so that they are found beside any other mistake."""

    def given(section: str, key: str) -> bool:
        return values[section].get(key) not in (None, "")

    def pair(section: str, one: str, other: str) -> Iterator[str]:
        for here, missing in ((one, other), (other, one)):
            if given(section, here) and not given(section, missing):
                yield f"{section}.{missing}: is missing beside {section}.{here}"

    yield from pair("platform", "user_id", "api_key")
    yield from pair("platform", "email", "password")
    if not any(given("platform", key) for key in ("user_id", "api_key", "email", "password")):
        yield "platform.api_key: no credentials; set user_id and api_key, or email and password"
    yield from pair("server", "tls_cert", "tls_key")
    yield from pair("webhooks", "username", "password")
    yield from pair("smtp", "user", "password")
    if given("smtp", "host") and not given("smtp", "from"):
        yield "smtp.from: is missing beside smtp.host"
    for key in ("tls_cert", "tls_key"):
        if given("server", key):
            path = Path(str(values["server"][key])).expanduser()
            try:
                path.open("rb").close()
            except OSError as error:
                yield f"server.{key}: {path}: can't be read: {error.strerror}"


def _hint(close: list[str]) -> str:
    return f"; did you mean {close[0]}?" if close else ""
