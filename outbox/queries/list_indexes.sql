-- Lists the indexes of the schema, without those of partitions (which have those of their parent), with size and rows.
select i.relname as name, t.relname as on_table, x.indisvalid and x.indisready as is_valid,
    pg_relation_size(i.oid) as bytes, greatest(s.n_live_tup, 0) as live
from pg_index x
join pg_class i on i.oid = x.indexrelid
join pg_class t on t.oid = x.indrelid
left join pg_stat_user_tables s on s.relid = t.oid
where t.relnamespace = 'outbox'::regnamespace and not t.relispartition
order by i.relname
