"""Text that would do harm if it were ever taken for SQL, a format string, a pattern or a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

__all__ = ["HOSTILE", "Canary"]

CALL = "select public.outbox_canary()"
HOSTILE = {
    "quote": f"'; {CALL}; --",
    "concatenation": "' || public.outbox_canary() || '",
    "double_quote": f'"; {CALL}; --',
    "double_quote_expression": '" || public.outbox_canary() || "',
    "parenthesis": f"x'); {CALL}; --",
    "dollars": f"$$; {CALL}; $$",
    "tagged_dollars": f"$x$ {CALL} $x$ $1 $2",
    "backslash_quote": f"\\'; {CALL}; --",
    "last_backslash": "x\\",
    "escape_string": f"E'\\'; {CALL}; --'",
    "comment": f"*/ {CALL}; /*",
    "line_break": f"x\n; {CALL};\n--",
    "expression": "public.outbox_canary()",
    "array": f'{{a,"b\'; {CALL}; --",NULL}}',
    "per_cent": "%s %L %I %1$s %% %(key)s %",
    "braces": "{0} {op} {key.__class__} {{",
    "wide_quotes": f"\N{FULLWIDTH APOSTROPHE}; {CALL} \N{MODIFIER LETTER APOSTROPHE} \N{RIGHT SINGLE QUOTATION MARK}",
    "unicode_escape": f"U&'\\0027; {CALL}; --' \\u0027",
    "pattern": "%' or '_' like '_.*(a+)+$[",
    "path": "../../../../etc/passwd",
    "reference": "outbox.deliveries; drop table outbox.deliveries cascade",
}


class Canary:
    """A function that leaves a trace no rollback removes, and a picture of the tables."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute(
            "create sequence public.outbox_canary_seq;"
            "create function public.outbox_canary() returns text language sql"
            " return (pg_catalog.nextval('public.outbox_canary_seq'))::text;"
            "grant execute on function public.outbox_canary() to public;"
            "grant usage on sequence public.outbox_canary_seq to public"
        )
        self._relations = self._picture()

    def _picture(self) -> list:
        """Return every relation, function, trigger and role, with what a definition could have been changed to."""
        return self._connection.execute(
            "select c.oid, c.relname::text, c.relkind::text, c.relowner, c.relacl::text from pg_class c"
            " join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('outbox', 'public')"
            " union all select p.oid, p.proname::text, md5(p.prosrc), p.proowner, p.proacl::text from pg_proc p"
            " join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('outbox', 'public')"
            " union all select t.oid, t.tgname::text, '', 0, null from pg_trigger t order by 1"
        ).fetchall()

    def sang(self) -> bool:
        """Tell whether the function was ever called."""
        return self._connection.execute("select is_called from public.outbox_canary_seq").fetchone()[0]

    def check(self) -> None:
        """Fail if the function was called, or anything was made, changed or dropped."""
        assert not self.sang(), "a string was executed"
        assert self._picture() == self._relations, "something was created, changed or dropped"
