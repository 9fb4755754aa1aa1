r"""A chat template turns messages into one prompt text; it is a stranger's program, so it runs in a sandbox.

jinja2's immutable sandbox gives it no attribute that leads to Python, and no way to change what it is given. On top:
ranges of at most 10 000 a rendering in all, no repetition of texts past 1 MB, no powers. Not bounded: how long a
template that nests loops over the messages takes.

>>> render("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", [{"role": "user", "content": "hi"}])
'user: hi\n'
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

MAX_RANGE = 10_000
MAX_TEXT = 1_000_000


def render(
    template: str,
    messages: Sequence[Mapping[str, str]],
    *,
    add_generation_prompt: bool = True,
    tokens: Mapping[str, str] | None = None,
) -> str:
    """The prompt text of a conversation.

    Args:
        template: jinja2, as `transformers` writes it.
        messages: each with `role` and `content`.
        add_generation_prompt: whether the text ends where the assistant's turn begins.
        tokens: `bos_token` and such, for the template's use.

    Raises:
        ValueError: if the template does not parse, asks for what the sandbox refuses, or rejects the messages.
    """
    import jinja2

    environment = _environment()
    try:
        made = environment.template_class.from_code(environment, _compiled(template), environment.make_globals(None))
        text: str = made.render(
            messages=[dict(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            **(tokens or {}),
        )
        return text
    except (jinja2.TemplateError, TypeError, ArithmeticError, LookupError, RecursionError, OverflowError) as error:
        raise ValueError(f"the chat template failed: {type(error).__name__}: {error}") from error


@functools.lru_cache(maxsize=8)
def _compiled(template: str) -> Any:
    """The template's code: a server renders it for every request, and compiling takes as long as a decoding step."""
    return _environment().compile(template)


def _environment() -> Any:
    from jinja2.exceptions import SecurityError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" or _repeats(left, right) > MAX_TEXT:
                raise SecurityError(f"{operator} is not allowed here")
            return super().call_binop(context, operator, left, right)

    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = _tojson
    environment.globals |= {"raise_exception": _raise, "range": _budgeted_range(), "strftime_now": _no_clock}
    return environment


def _repeats(left: Any, right: Any) -> int:
    for text, times in ((left, right), (right, left)):
        if isinstance(text, str | list | tuple) and isinstance(times, int):
            return len(text) * times
    return 0


def _budgeted_range() -> Any:
    spent = 0

    def limited(*args: int) -> range:
        nonlocal spent
        steps = range(*args)
        spent += len(steps)
        if spent > MAX_RANGE:
            raise OverflowError(f"range: more than {MAX_RANGE} steps")
        return steps

    return limited


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise LookupError(message)


def _no_clock(form: str) -> str:
    """The same prompt today and tomorrow: templates that print the date get a fixed one."""
    import datetime

    return datetime.date(2025, 1, 1).strftime(form)
