"""Requests made up from the OpenAPI document: the answers are what it says, and no server error is among them."""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from pgtasker.web.api import create_app
from pgtasker.web.gate import Gate
from tests.kernel.engine import chain
from tests.web.conftest import Api

# No schema can say that names in a graph differ, that it has no circle, or that text deep in a context is not what
# PostgreSQL refuses (400); nor that a guard holds (422) or that a claim is current (412).
MANY = int(os.environ.get("PGTASKER_TEST_EXAMPLES", "2"))
_ACCEPTED = ["2xx", "400", "403", "404", "409", "412", "422"]


@pytest.fixture(scope="module")
def document(served: Api) -> schemathesis.BaseSchema:
    """The document as the server gives it."""
    config = SchemathesisConfig.from_dict(
        {
            "auth": {"openapi": {"HTTPBearer": {"bearer": served.tokens["operator"]}}},
            "checks": {"positive_data_acceptance": {"expected-statuses": _ACCEPTED}},
        }
    )
    return schemathesis.openapi.from_url(f"{served.address}/openapi.json", config=config)


@pytest.fixture(scope="module")
def keys(served: Api) -> dict[str, str]:
    """Keys of things that are there: most requests would stop at 404 otherwise."""
    engine = served.engine
    task = engine.task(chain("a", "b", "c"))
    worker = engine.one("select tasker.register_worker('w', p_vocabulary => 'supervision')")
    engine.one("select tasker.configure_breaker('curl', p_vocabulary => 'pipeline')")
    engine.one("select tasker.register_template(%s)", '{"name": "flow", "steps": [{"name": "a"}]}')
    engine.one("select tasker.schedule_tasks('hourly', '@hourly', 'flow')")
    return {
        "task_uuid": str(task), "job_id": str(task), "step_uuid": str(engine.steps(task)["a"]), "tool": "curl",
        "worker_uuid": str(worker), "worker_id": str(worker), "lifecycle": "tasker.task", "namespace": "default", "schedule": "hourly",
        "event": "approved", "key": "order-7",
    }  # fmt: skip


OPERATIONS = [
    (path, method)
    for path, methods in create_app(Gate("postgresql:///", [])).openapi()["paths"].items()
    for method in methods
]


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda value: value)
def test_answers_are_what_the_document_says(
    document: schemathesis.BaseSchema, keys: dict[str, str], path: str, method: str, mode: GenerationMode
) -> None:
    @settings(
        max_examples=MANY, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=document[path][method].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case[Any]) -> None:
        if mode is GenerationMode.POSITIVE:
            case.path_parameters.update({name: keys.get(name, key) for name, key in case.path_parameters.items()})
        case.call_and_validate()

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # there is nothing to get wrong


def test_the_document_is_openapi_3_1_and_complete(document: schemathesis.BaseSchema) -> None:
    raw = document.raw_schema
    assert raw["openapi"].startswith("3.1")
    for path, operations in raw["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"] and operation["description"], (method, path)
            assert {"401", "503"} <= set(operation["responses"]), (method, path)
            for status, response in operation["responses"].items():
                if status == "204":
                    assert "content" not in response, (method, path)
                    continue
                kind = "application/problem+json" if status >= "400" else "application/json"
                assert list(response["content"]) == [kind], (method, path, status)
