"""Shows MkDocs the methods that `pubqueue_xeps.client.threads` makes: what a reader calls, not how it is assigned.

`publish = blocking(Publisher.publish)` is a method with the parameters and the text of `Publisher.publish`, and is not
async; a method under `@takes(Publisher.__init__)` has the parameters of that.
"""

from __future__ import annotations

import griffe


class BlockingMethods(griffe.Extension):
    """Puts a function in the place of each such assignment."""

    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **_: object) -> None:
        """Look at each member of a class."""
        for name, member in list(cls.members.items()):
            if isinstance(member, griffe.Attribute):
                of = argument(member.value, "blocking")
            elif isinstance(member, griffe.Function):
                of = next(
                    (of for it in member.decorators if (of := argument(it.value, "takes"))), None
                )
            else:
                of = None
            if of is None:
                continue
            method = loader.modules_collection[of]
            assert isinstance(method, griffe.Function), of
            if isinstance(member, griffe.Function):
                member.parameters = method.parameters
                continue
            made = griffe.Function(
                name,
                lineno=member.lineno,
                endlineno=member.endlineno,
                parameters=method.parameters,
                returns=method.returns,
            )
            made.docstring = method.docstring
            cls.set_member(name, made)


def argument(value: object, function: str) -> str | None:
    """Return the full name of the argument of a call of the function; None for anything else."""
    if isinstance(value, griffe.ExprCall) and value.function.canonical_name == function:
        (of,) = value.arguments
        assert isinstance(of, griffe.Expr), of
        return of.canonical_path
    return None
