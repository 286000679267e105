-- Lists the sequences of the schema that can come to an end, with the share of their numbers that is used.
select s.sequencename as name, coalesce(s.last_value, 0) as last_value, s.max_value,
    coalesce(s.last_value, 0)::double precision / s.max_value as used
from pg_sequences s
where s.schemaname = 'outbox' and not s.cycle
order by s.sequencename
