"""Comparison of responses with the OpenAPI document."""

from jsonschema import Draft202012Validator

from tests.support.http_client import Json


def answer_fits(document: Json, method: str, path: str, answer: Json, status: str = "200") -> None:
    (media,) = document["paths"][path][method]["responses"][status]["content"].values()
    Draft202012Validator({**media["schema"], "components": document["components"]}).validate(answer)
