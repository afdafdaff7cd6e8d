"""Writes mm_relu.module.json and mm_relu.job.json from the classroom: `python -m examples.make_jobs`.

The job is a body of POST /v1/jobs as it stands. Source locations are left out: they would name files of
whoever ran this.
"""

import json
from pathlib import Path
from typing import Any

from examples.classroom import modules
from tilefarm import module

HERE = Path(__file__).parent


def job() -> dict[str, Any]:
    text = module.to_json(modules()["mm_relu"])
    return {"name": "mm_relu", "module": json.loads(text), "target": "local", "max_trials": 64}


def main() -> None:
    body = job()
    for name, content in (("mm_relu.module.json", body["module"]), ("mm_relu.job.json", body)):
        (HERE / name).write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
        print(HERE / name)


if __name__ == "__main__":
    main()
