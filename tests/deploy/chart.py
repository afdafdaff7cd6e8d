"""Renders the chart without Helm: Go templates with Sprig's functions, one file after the other.

Stricter than Helm where a value is missing (an error here, nothing there). What Helm alone has, hooks and the
files of a chart, is replaced: a hook is an annotation, and a file's text stands in a value.
"""

import copy
import re
from pathlib import Path
from typing import Any

import yaml
from go_template import render as render_template

CHART = Path(__file__).parents[2] / "helm"
_FILE = re.compile(r'\.Files\.Get "([^"]+)"')


def default_values() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return values


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges: objects by key, all else replaced."""
    out = copy.deepcopy(values)
    for key, change in changes.items():
        old = out.get(key)
        out[key] = merged(old, change) if isinstance(old, dict) and isinstance(change, dict) else change
    return out


def manifests(
    home: Path, changes: dict[str, Any] | None = None, *, release: str = "farm", upgrade: bool = False
) -> list[dict[str, Any]]:
    """Every object that the chart makes; `home` takes the files between."""
    found: list[dict[str, Any]] = []
    for template in sorted((CHART / "templates").glob("*.yaml")):
        text = rendered(home, template, changes or {}, release=release, upgrade=upgrade)
        found += [document for document in yaml.safe_load_all(text) if document is not None]
    return found


def rendered(
    home: Path, template: Path, changes: dict[str, Any], *, release: str = "farm", upgrade: bool = False
) -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    source = home / template.name
    body = _FILE.sub(r'(index .TestFiles "\1")', template.read_text(encoding="utf-8"))
    source.write_text(helpers + body, encoding="utf-8")
    context = {
        "Values": merged(default_values(), changes),
        "Release": {
            "Name": release,
            "Namespace": "tuning",
            "Service": "Helm",
            "IsInstall": not upgrade,
            "IsUpgrade": upgrade,
        },
        "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
        "TestFiles": {
            str(path.relative_to(CHART)): path.read_text(encoding="utf-8")
            for path in (CHART / "monitoring").iterdir()
        },
    }
    text = render_template(source, context).decode()
    assert not text.startswith(("parse template failed", "execute", "render")), text[:500]
    return text
