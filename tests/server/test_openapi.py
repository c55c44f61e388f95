from __future__ import annotations

from typing import Any

from firstdiff.schema import Pair
from firstdiff.server.openapi import openapi


def refs(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["$ref"]} if "$ref" in schema else set()
        return own.union(*(refs(part) for part in schema.values()))
    return set().union(*(refs(part) for part in schema)) if isinstance(schema, list) else set()


def test_every_name_that_is_used_is_described() -> None:
    described = openapi()
    names = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert refs(described) <= names


def test_a_pair_has_the_fields_of_the_json() -> None:
    pair = openapi()["components"]["schemas"]["Pair"]
    assert list(pair["properties"]) == list(Pair.__dataclass_fields__)
    assert pair["required"] == list(pair["properties"])


def test_numbers_may_be_words_where_they_need_not_be_finite() -> None:
    schemas = openapi()["components"]["schemas"]
    assert {"$ref": "#/components/schemas/Num"} in schemas["RowLine"]["properties"]["ratio"]["anyOf"]
    assert {"type": "number"} in schemas["JudgeIn"]["properties"]["atol"]["anyOf"]


def test_operations_have_plain_names() -> None:
    names = [operation["operationId"] for path in openapi()["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
