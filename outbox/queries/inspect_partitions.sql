-- Reads up to when partitions exist without a gap from now on, and whether rows had to go into the default one.
-- Index: primary keys of the default partitions.
select p.parent, max(p.upper_bound) as covered_until,
    coalesce(bool_or(p.lower_bound <= clock_timestamp() and p.upper_bound > clock_timestamp()), false) as is_today_covered,
    case p.parent
        when 'events' then exists (select from outbox.events_default)
        else exists (select from outbox.attempts_default) end as has_default_rows
from outbox.partitions p
group by p.parent
order by p.parent
