-- Creates the tables of the shop, which knows nothing of the outbox's own.
create schema shop;

create table shop.orders (
    id bigint generated always as identity primary key,
    customer text not null,
    article text not null,
    quantity integer not null
);
comment on table shop.orders is 'What customers ordered and paid for.';

create table shop.reservations (
    order_id bigint not null references shop.orders,
    event_id uuid not null,
    article text not null,
    quantity integer not null
);
comment on table shop.reservations is 'What the handler did; without a unique key, so that doing it twice would show.';
