"""Templates of operators and sensors, in DAGs with native templates too."""

from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from jinja2.nativetypes import NativeEnvironment

if TYPE_CHECKING:
    from airflow.sdk import Context

LITERALS = (str, bytes, int, float, complex)
"""Types of what native templates read in a text, such as the number 1000 in the group id `1_000`."""


class TextTemplates:
    """Mixin for operators: templates render text and numbers as text, and native ones other values as they are."""

    def render_template(
        self, content: Any, context: "Context", jinja_env: Environment | None = None, seen_oids: set[int] | None = None
    ) -> Any:
        """Render a template, or those in a collection."""
        rendered = super().render_template(content, context, jinja_env, seen_oids)  # type: ignore[misc]  # of the operator
        if not (isinstance(content, str) and isinstance(jinja_env, NativeEnvironment)):
            return rendered
        if not isinstance(rendered, LITERALS):
            return rendered
        text_env = self.get_dag().get_template_env(force_sandboxed=True)  # type: ignore[attr-defined]  # likewise
        return text_env.from_string(content).render(context)
