-- Makes the login that relays use, with the rights of outbox_relay and no others.
\getenv password RELAY_PASSWORD
create role relay login password :'password' in role outbox_relay;
