"""JSON schemas of the files that users write, for their editors: `python -m parley.study.schema` writes them.

They are generated from the pydantic models that check the files, so they say the same.
"""

import json
from typing import Any

from parley import paths
from parley.engine.models import ModelsFile
from parley.games.registry import GAMES
from parley.study.study_file import StudyFile


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by name: `study` and `models`."""
    study = StudyFile.model_json_schema()
    shipped = {"enum": sorted(GAMES)}
    # An editor offers these, and takes the user's own.
    study["properties"]["game"]["anyOf"] = [shipped, {"pattern": ":"}, {"description": "An installed entry point."}]
    parameters = [game.Parameters.model_json_schema(mode="validation") for _, game in sorted(GAMES.items())]
    definitions = study.setdefault("$defs", {})
    for schema in parameters:
        added = schema.pop("$defs", {})
        assert all(definitions.get(name, found) == found for name, found in added.items()), "two models of one name"
        definitions |= added
        definitions[schema["title"]] = schema
    fitting = {"anyOf": [{"$ref": f"#/$defs/{schema['title']}"} for schema in parameters]}
    study["if"] = {"properties": {"game": shipped}}
    study["then"] = {"properties": {"parameters": fitting}}
    return {"study": study, "models": ModelsFile.model_json_schema()}


def text(schema: dict[str, Any]) -> str:
    """Return a schema as it stands in its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the schema files."""
    for name, schema in schemas().items():
        path = paths.schema(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(schema), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
