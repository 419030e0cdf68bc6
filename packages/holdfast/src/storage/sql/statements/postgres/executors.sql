-- executors.beat
update "dbos".executors
set
  heartbeat_at = (
    extract(
      epoch
      from
        clock_timestamp()
    ) * 1000
  )::bigint,
  beats = case
    when beats < cast($5 as bigint) then beats
    else beats + 1
  end, lock_key = case
    when cast($2 as boolean) then cast($3 as text)
    else lock_key
  end, ttl_ms = coalesce(cast($4 as bigint), ttl_ms)
where
  incarnation = $1
returning
  takeovers, beats;

-- executors.bury
delete from "dbos".executors
where
  exists (
    select
      1
    from
      json_to_recordset($1::text::json) as b ("incarnation" text, "beats" bigint)
    where
      b.incarnation = "dbos".executors.incarnation
      and b.beats >= "dbos".executors.beats
  )
  and not exists (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.status = 'PENDING'
      and w.application_version = "dbos".executors.application_version
      and w.executor_id = "dbos".executors.executor_id
      and w.owner_xid like "dbos".executors.incarnation || '.%'
  );

-- executors.join
insert into
  "dbos".executors as e (
    incarnation, executor_id, application_name, application_version, host, pid, process_start, ttl_ms,
    lock_key, listens, started_at, heartbeat_at, beats
  )
values
  (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
    (
      extract(
        epoch
        from
          clock_timestamp()
      ) * 1000
    )::bigint,
    (
      extract(
        epoch
        from
          clock_timestamp()
      ) * 1000
    )::bigint,
    1
  )
on conflict (incarnation) do update
set
  lock_key = excluded.lock_key, ttl_ms = excluded.ttl_ms,
  heartbeat_at = (
    extract(
      epoch
      from
        clock_timestamp()
    ) * 1000
  )::bigint,
  beats = e.beats + 1
returning
  beats;

-- executors.leave
delete from "dbos".executors
where
  incarnation = $1
  and not exists (
    select
      1
    from
      "dbos".workflow_status w
    where
      w.status = 'PENDING'
      and w.application_version = "dbos".executors.application_version
      and w.executor_id = "dbos".executors.executor_id
      and w.owner_xid like "dbos".executors.incarnation || '.%'
  );

-- executors.list
with
  present as materialized (
    select
      objid::text as key
    from
      pg_locks
    where
      locktype = 'advisory'
      and granted
      and classid = 1215261796
      and objsubid = 2
      and database = (
        select
          oid
        from
          pg_database
        where
          datname = current_database()
      )
  )
select
  incarnation, executor_id, application_name, application_version, host, pid, process_start, ttl_ms, lock_key,
  listens, started_at, heartbeat_at, beats, case
    when lock_key is not null then lock_key in (
      select
        key
      from
        present
    )
  end as present
from
  "dbos".executors
where
  application_name = $1
order by
  started_at, incarnation;

-- executors.takeovers
select
  takeovers
from
  "dbos".executors
where
  incarnation = $1;

-- executors.tellOfTakeover
update "dbos".executors
set
  takeovers = takeovers + 1
where
  incarnation >= ''
  and (
    incarnation = any ($1::text[])
    or executor_id = any ($2::text[])
  );

