"""Requests made from a service's OpenAPI document, with Schemathesis, which only `make test-all` installs."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.helpers.serving import Served


def as_documented(served: Served, examples: int) -> set[str]:
    """Send what the OpenAPI document allows, and what it does not; return the paths that were called."""
    schemathesis = pytest.importorskip("schemathesis", reason="make test-all installs Schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi import checks

    promises = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    document = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    called = set()
    for result in document.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        for mode in schemathesis.GenerationMode:
            if mode is schemathesis.GenerationMode.NEGATIVE and operation.path in ("/healthz", "/readyz"):
                continue  # they take nothing that could be wrong

            @settings(
                max_examples=examples,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def call(case: Any) -> None:
                case.call_and_validate(checks=promises)
                called.add(case.path)

            call()
    return called
