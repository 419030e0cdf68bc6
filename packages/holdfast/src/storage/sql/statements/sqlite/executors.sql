-- executors.beat
update executors
set
  heartbeat_at = cast(round((julianday ('now') - 2440587.5) * 86400000) as integer), beats = case
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
delete from executors
where
  exists (
    select
      1
    from
      (
        select
          value ->> 'incarnation' as "incarnation", value ->> 'beats' as "beats"
        from
          json_each($1)
      ) as b
    where
      b.incarnation = executors.incarnation
      and b.beats >= executors.beats
  )
  and not exists (
    select
      1
    from
      workflow_status w
    where
      w.status = 'PENDING'
      and w.application_version = executors.application_version
      and w.executor_id = executors.executor_id
      and w.owner_xid like executors.incarnation || '.%'
  );

-- executors.join
insert into
  executors as e (
    incarnation, executor_id, application_name, application_version, host, pid, process_start, ttl_ms,
    lock_key, listens, started_at, heartbeat_at, beats
  )
values
  (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
    cast(round((julianday ('now') - 2440587.5) * 86400000) as integer),
    cast(round((julianday ('now') - 2440587.5) * 86400000) as integer), 1
  )
on conflict (incarnation) do update
set
  lock_key = excluded.lock_key, ttl_ms = excluded.ttl_ms,
  heartbeat_at = cast(round((julianday ('now') - 2440587.5) * 86400000) as integer), beats = e.beats + 1
returning
  beats;

-- executors.leave
delete from executors
where
  incarnation = $1
  and not exists (
    select
      1
    from
      workflow_status w
    where
      w.status = 'PENDING'
      and w.application_version = executors.application_version
      and w.executor_id = executors.executor_id
      and w.owner_xid like executors.incarnation || '.%'
  );

-- executors.list
select
  incarnation, executor_id, application_name, application_version, host, pid, process_start, ttl_ms, lock_key,
  listens, started_at, heartbeat_at, beats, null as present
from
  executors
where
  application_name = $1
order by
  started_at, incarnation;

-- executors.takeovers
select
  takeovers
from
  executors
where
  incarnation = $1;

-- executors.tellOfTakeover
update executors
set
  takeovers = takeovers + 1
where
  incarnation >= ''
  and (
    incarnation in (
      select
        value
      from
        json_each($1)
    )
    or executor_id in (
      select
        value
      from
        json_each($2)
    )
  );

