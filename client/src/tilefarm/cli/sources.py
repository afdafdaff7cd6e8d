"""What the CLI is given to tune or to look up: a .json module, a .json job, or a .py file that is run here.

A module may be a Relax model; its weights stay here. A .py file is the user's own code; it runs in this
process, never on the service.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tilefarm import pairs
from tilefarm.cli.quick_parser import quick_parser

_RELAX = "relax.expr.Function"


class SourceError(ValueError):
    """A file does not hold what the command needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    #: A body of POST /v1/jobs, complete or not; it holds "module".
    body: Mapping[str, Any] = field(default_factory=dict)
    #: An IRModule, where the file was a .py.
    module: Any = None
    #: The .py file's own names.
    names: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        """Whether its module has a Relax function."""
        if self.module is not None:
            return _is_relax(self.module)
        found = self.body.get("module")
        return f'"{_RELAX}"' in (found if isinstance(found, str) else json.dumps(found))


def read(path: Path, *, functions: Sequence[str] = ()) -> Source:
    """SourceError where the file holds no module, or lacks one of `functions`."""
    if path.suffix == ".py":
        pairs.require()
        names = vars(_run(path))
        return Source(module=_module_of(names, path, functions), names=names)
    if functions:
        raise SourceError("--function picks from a .py file")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise SourceError(f"{path} nests too deep") from error
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} is no JSON that can be read: {error}") from error
    if isinstance(found, dict) and "nodes" in found:
        return Source(body={"name": path.stem, "module": found})
    if isinstance(found, dict) and "module" in found:
        return Source(body=found)
    raise SourceError(f"{path} holds neither a module's JSON nor a job with a module")


def module_of(source: Source) -> Any:
    """The IRModule of any source."""
    if source.module is not None:
        return source.module
    pairs.require()
    from tilefarm import module

    text = source.body["module"]
    if source.is_model:
        import tvm

        # A file of one's own: the check of what services send knows no weights and no operators.
        return tvm.ir.load_json(text if isinstance(text, str) else json.dumps(text))
    return module.from_json(text if isinstance(text, str) else json.dumps(text))


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise SourceError(f"{path} is no file")
    name = f"tilefarm_source_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SourceError(f"{path} is no Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded  # TVMScript asks for the source by module name
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with quick_parser():
            spec.loader.exec_module(loaded)
    except (Exception, SystemExit) as error:
        raise SourceError(f"{path} does not run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return loaded


def _module_of(names: Mapping[str, Any], path: Path, wanted: Sequence[str]) -> Any:
    import tvm

    models = {name: value for name, value in names.items() if not name.startswith("_") and _is_relax(value)}
    picked = [models[name] for name in wanted or models if name in models]
    if len(picked) == 1:
        return picked[0]
    if picked:
        raise SourceError(f"{path} has the models {', '.join(models)}: pick one by --function")
    found = _functions(names)
    if missing := [name for name in wanted if name not in found]:
        raise SourceError(f"{path} has no function {', '.join(missing)}; it has {', '.join(found) or 'none'}")
    chosen = {name: func for name, func in found.items() if not wanted or name in wanted}
    if not chosen:
        raise SourceError(f"{path} has no IRModule and no PrimFunc at its top level")
    return tvm.IRModule(chosen)


def _is_relax(value: Any) -> bool:
    import tvm

    if not isinstance(value, tvm.IRModule):
        return False
    return any(isinstance(func, tvm.relax.Function) for _, func in value.functions_items())


def _functions(names: Mapping[str, Any]) -> dict[str, Any]:
    """PrimFuncs by name; those called `main` take the name of the variable that holds their module."""
    import tvm

    from tilefarm.module import prim_funcs

    functions: dict[str, Any] = {}
    for name, value in names.items():
        if name.startswith("_"):
            continue
        if isinstance(value, tvm.tirx.PrimFunc):
            functions[name] = value
        elif isinstance(value, tvm.IRModule):
            for inner, func in prim_funcs(value):
                functions[name if inner == "main" else inner] = func
    return functions
