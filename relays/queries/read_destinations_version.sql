-- Reads a value that changes with every change to any destination: versions are drawn from a sequence, but commit in
-- any order, so the largest one alone would miss a late commit.
select count(*) || '/' || coalesce(sum(version), 0) as version
from outbox.destinations
where removed_at is null
