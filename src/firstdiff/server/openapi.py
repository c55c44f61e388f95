"""Print the OpenAPI schema, from which the page's types are generated: `python -m firstdiff.server.openapi`."""

from __future__ import annotations

import json
import sys
from typing import Any

from firstdiff.server.app import create_app

_NUM = {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["nan", "inf", "-inf"]}]}
_SENT = "In"
_FINITE = ("Progress",)


def openapi() -> dict[str, Any]:
    """OpenAPI as it is on the wire: answers hold every field, and numbers that are not finite are words."""
    described = create_app().openapi()
    schemas = described["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for name, schema in schemas.items():
        if not name.endswith(_SENT) and schema.get("properties"):
            schema["required"] = list(schema["properties"])
            if name in _FINITE:
                continue
            schema["properties"] = {field: _with_num(part) for field, part in schema["properties"].items()}
    schemas["Num"] = {**_NUM, "title": "Num"}
    for path in described["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    return described


def _with_num(schema: Any) -> Any:
    if isinstance(schema, dict):
        if schema.get("type") == "number":
            return {"$ref": "#/components/schemas/Num"}
        return {name: _with_num(part) for name, part in schema.items()}
    return [_with_num(part) for part in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    json.dump(openapi(), sys.stdout, indent=1)
    sys.stdout.write("\n")
