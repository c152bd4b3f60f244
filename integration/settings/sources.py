"""Sources of settings, a TOML file and the environment.

All mistakes are reported at once.

pydantic-settings 2.16 is not used: its environment source ignores a variable with a misspelt section, has no
`<KEY>_FILE` and no comma-separated lists, and one value that cannot be parsed hides all other mistakes.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from integration.core.errors import ConfigurationError
from integration.core.installation import describe_command
from integration.settings import related_keys

PREFIX = "SWITCHROOM_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"
"""Variable that names the settings file; the only one of the prefix that is not a key."""
DEFAULT_FILE = Path("config.toml")
Model = TypeVar("Model", bound=BaseModel)


@dataclass
class Sources:
    """Values read, as `values[section][key]`, their origins by `section.key`, and mistakes."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)
    file: Path | None = None
    is_complete: bool = True
    """False if the file could not be read, or if there is none.

    Missing keys are then no mistake.
    """


def iterate_keys(model: type[BaseModel]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield section, key as written in TOML, and field of every setting."""
    for section, section_field in model.model_fields.items():
        section_model = section_field.annotation
        assert isinstance(section_model, type)
        assert issubclass(section_model, BaseModel)
        for name, key_field in section_model.model_fields.items():
            yield section, key_field.alias or name, key_field


def variable_name(section: str, key: str) -> str:
    """Return the environment variable of a key."""
    return f"{PREFIX}{section.upper()}__{key.upper()}"


def read_sources(model: type[BaseModel], config: Path | None, environ: Mapping[str, str]) -> Sources:
    """Read the settings file and the environment, which overrides the file.

    The file is `config`, else $SWITCHROOM_CONFIG, else config.toml if it exists.
    """
    sources = Sources(file=find_file(config, environ))
    if sources.file is not None:
        _read_file(sources, sources.file)
    elif not any(name.startswith(f"{PREFIX}PLATFORM__") for name in environ):
        sources.mistakes.append(
            f"There is no settings file {DEFAULT_FILE} in this folder. Write one by"
            f" {describe_command('init')}, name another by --config, or try Switchroom without an account by"
            f" {describe_command('demo')}."
        )
        sources.is_complete = False
    _read_environment(sources, model, environ)
    return sources


def find_file(config: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file: `config`, else $SWITCHROOM_CONFIG, else config.toml if it exists."""
    if config is None and environ.get(CONFIG_VARIABLE):
        return Path(environ[CONFIG_VARIABLE])
    return config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)


def _read_file(sources: Sources, path: Path) -> None:
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        sources.mistakes.append(f"{path}: cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        sources.mistakes.append(f"{path}: is not UTF-8 text (byte {error.start})")
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"^(.*) \(at (.*)\)$", str(error), re.DOTALL)
        sources.mistakes.append(f"{path}: {position[2]}: {position[1]}" if position else f"{path}: {error}")
    except RecursionError:
        sources.mistakes.append(f"{path}: is nested too deeply")
    else:
        for section, table in tables.items():
            if isinstance(table, dict):
                sources.values[section] = dict(table)
                sources.origins.update({f"{section}.{key}": str(path) for key in table})
            else:
                sources.mistakes.append(f"{section}: must be a section ([{section}]) in {path}")
        return
    sources.is_complete = False


def _read_environment(sources: Sources, model: type[BaseModel], environ: Mapping[str, str]) -> None:
    variables = {
        variable_name(section, key): (section, key, info) for section, key, info in iterate_keys(model)
    }
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name == CONFIG_VARIABLE:
            continue
        base_name = name if name in variables else name.removesuffix("_FILE")
        if base_name not in variables:
            sources.mistakes.append(_describe_unknown_variable(name, variables))
            continue
        section, key, info = variables[base_name]
        text = environ[name]
        if base_name != name:
            if base_name in environ:
                sources.mistakes.append(f"{section}.{key}: both {base_name} and {name} are set; keep one")
                continue
            try:
                text = Path(text).read_bytes().decode("utf-8-sig").rstrip("\r\n")
            except OSError as error:
                sources.mistakes.append(f"{section}.{key}: {name}: {text}: cannot be read: {error.strerror}")
                continue
            except ValueError:
                sources.mistakes.append(f"{section}.{key}: {name}: {text}: is not UTF-8 text")
                continue
        try:
            value = _parse_text(info, text)
        except ValueError:
            sources.mistakes.append(f"{section}.{key}: {name}: is not a JSON list")
            continue
        sources.values.setdefault(section, {})[key] = value
        sources.origins[f"{section}.{key}"] = name


def _describe_unknown_variable(name: str, variables: Iterable[str]) -> str:
    """Describe an unknown variable with the most similar name of a key."""
    base_name = name.upper().removesuffix("_FILE")
    # Without the prefix: names that share nothing else would be similar.
    endings = [variable.removeprefix(PREFIX) for variable in (*variables, CONFIG_VARIABLE)]
    suffix = "_FILE" if base_name != name.upper() else ""
    matches = [
        f"{PREFIX}{ending}{suffix}"
        for ending in difflib.get_close_matches(base_name.removeprefix(PREFIX), endings, 1)
    ]
    return f"{name}: unknown variable{_suggest_name(matches) or '; remove it'}"


def _parse_text(info: FieldInfo, text: str) -> Any:
    """Parse the text of a variable as a list or None.

    pydantic parses numbers and booleans.
    """
    if _is_list_key(info):
        if text.lstrip().startswith("["):
            return json.loads(text)
        items = [item.strip() for item in text.split(",")]
        return [item for item in items if item] or (None if info.default is None else [])
    if text == "" and info.default is None:
        return None
    return text


def _is_list_key(info: FieldInfo) -> bool:
    return any(_has_tuple(option) for option in (info.annotation, *get_args(info.annotation)))


def _has_tuple(annotation: Any) -> bool:
    if hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    return get_origin(annotation) is tuple


def build_settings(model: type[Model], sources: Sources, *, needs_credentials: bool = True) -> Model:
    """Validate the values of `sources` and return an instance of `model`.

    Without `needs_credentials`, platform credentials may be missing. Raises ConfigurationError with all
    mistakes, including those of `sources`.
    """
    mistakes = list(sources.mistakes)
    values: dict[str, dict[str, Any]] = {section: {} for section in model.model_fields} | sources.values
    settings: Model | None = None
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        fields = {f"{section}.{key}": info for section, key, info in iterate_keys(model)}
        for detail in error.errors(include_url=False):
            if detail["type"] == "missing" and not sources.is_complete:
                continue
            mistakes.append(_format_error(model, fields, sources, detail))
    if sources.is_complete:
        mistakes += related_keys.find_mistakes(values, needs_credentials=needs_credentials)
    if settings is None or mistakes:
        raise ConfigurationError(list(dict.fromkeys(mistakes)))
    return settings


def _format_error(
    model: type[BaseModel], fields: Mapping[str, FieldInfo], sources: Sources, detail: Mapping[str, Any]
) -> str:
    """Format an error of pydantic as one line, without secrets.

    The line names the key.
    """
    section, *key_path = (str(part) for part in detail["loc"])
    if not key_path:
        return (
            f"{section}: unknown section"
            f"{_suggest_name(difflib.get_close_matches(section, model.model_fields, 1))}"
        )
    key = f"{section}.{key_path[0]}"
    if key not in fields:
        return f"{key}: unknown key{_suggest_name(difflib.get_close_matches(key, fields, 1))}"
    if detail["type"] == "missing" and len(key_path) == 1:
        return (
            f"{key}: is required; set it in {sources.file or DEFAULT_FILE} or with"
            f" {variable_name(section, key_path[0])}"
        )
    origin = sources.origins.get(key, "")
    source_note = f" ({origin})" if origin.startswith(PREFIX) else ""
    schema_extra = fields[key].json_schema_extra
    value = detail.get("input")
    value_note = ""
    if (
        not (isinstance(schema_extra, dict) and schema_extra.get("secret"))
        and detail["type"] != "value_error"
    ):
        value_note = f", not {value!r}" if len(repr(value)) <= 60 else ""
    return f"{key}{source_note}: {_describe_error(detail)}{value_note}".replace("\n", " ")


def _describe_error(detail: Mapping[str, Any]) -> str:
    context = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    for prefix, description in (
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
        ("greater_than", f"must be more than {context.get('gt', 0):g}"),
        ("less_than_equal", f"must be at most {context.get('le')}"),
    ):
        if kind.startswith(prefix):
            return description
    return str(detail["msg"])


def _suggest_name(matches: list[str]) -> str:
    return f"; did you mean {matches[0]}?" if matches else ""
