-- Creates the views that `outbox status` reads, so that it works for outbox_reader, too.
-- Locks: none that an application could wait for. Deploy before the code. Breaking: no, first release.
--
-- What receivers answered and who a mail is for (detail, recipient) is shown to those who may read the tables anyway. The
-- test of that right is no function of ours: views call functions as their reader, who would need a right to execute it.

create view outbox.open_states as
    select d.id, d.event_id, d.destination_id, d.key,
           case when has_table_privilege('outbox.deliveries', 'select') then d.recipient end as shown_recipient,
           d.due_at, d.attempt, d.leased_until, d.relay_id
    from outbox.deliveries d;
comment on view outbox.open_states is 'Open deliveries, without lease tokens; the recipient only for those who may read the table.';

create view outbox.dead_states as
    select l.delivery_id, l.event_id, l.destination_id, l.key,
           case when has_table_privilege('outbox.dead_letters', 'select') then l.recipient end as shown_recipient,
           l.attempt, l.reason, l.died_at
    from outbox.dead_letters l;
comment on view outbox.dead_states is 'Dead letters, without their detail; the recipient only for those who may read the table.';

create view outbox.timeline as
    select a.delivery_id, a.event_id, a.destination_id,
           case when has_table_privilege('outbox.attempts', 'select') then a.recipient end as shown_recipient,
           a.attempt, a.started_at, a.duration_ms, a.outcome, a.reason, a.certainty, a.status,
           case when has_table_privilege('outbox.attempts', 'select') then a.detail end as shown_detail,
           a.relay_id
    from outbox.attempts a;
comment on view outbox.timeline is 'Attempts and operators'' actions; recipient and detail only for those who may read the table.';

select outbox.grant_roles();
