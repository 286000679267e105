-- Estimates what count_open counts, from a share of the pages of the table: for more rows than can be counted in time.
-- Which keyed delivery is the head of its key cannot be told from a sample, so none counts as blocked.
-- Index: none, a sample of the pages.
select destination_id,
    round(count(*) filter (where is_leased) * 100 / %(percent)s)::bigint as leased,
    round(count(*) filter (where is_lapsed) * 100 / %(percent)s)::bigint as lapsed,
    0::bigint as blocked,
    round(count(*) filter (where is_later and not is_leased) * 100 / %(percent)s)::bigint as scheduled,
    round(count(*) filter (where not is_later and not is_leased) * 100 / %(percent)s)::bigint as waiting,
    extract(epoch from now() - min(due_at) filter (where not is_later and not is_leased))::double precision
        as oldest_waiting_seconds
from (
    select d.destination_id, d.due_at,
        coalesce(d.leased_until >= now(), false) as is_leased,
        coalesce(d.leased_until < now(), false) as is_lapsed,
        d.due_at > now() as is_later
    from outbox.deliveries d tablesample system (%(percent)s)) sampled
group by destination_id
