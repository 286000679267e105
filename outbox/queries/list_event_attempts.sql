-- Lists the timeline of one event: attempts and operators' actions, oldest first.
-- Index: attempts_event_idx.
select a.delivery_id, a.attempt, a.started_at, a.duration_ms, a.outcome::text as outcome, a.reason,
    a.certainty::text as certainty, a.status, a.shown_detail as detail, a.relay_id as relay
from outbox.timeline a
where a.event_id = %(event_id)s::uuid
order by a.started_at, a.attempt
