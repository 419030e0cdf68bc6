-- queues.busy
with recursive
  names (name) as (
    select
      (
        select
          min(queue_name)
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name is not null
      )
    union all
    select
      (
        select
          min(queue_name)
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name > found.name
      )
    from
      names found
    where
      found.name is not null
  )
select
  name,
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          coalesce(status, '') = 'ENQUEUED'
          and recovery_attempts > 0
          and queue_name = names.name
        limit
          1
      ) as t
  ) > 0 as retried,
  (
    select
      q.turn
    from
      queues q
    where
      q.name = names.name
  ) as turn,
  cast(null as bigint) as next_due_at
from
  names
where
  name is not null
union all
select
  null, null, null,
  (
    select
      min(delay_until_epoch_ms)
    from
      workflow_status
    where
      status = 'DELAYED'
  );

-- queues.change
update queues
set
  concurrency = $2, worker_concurrency = $3, rate_limit_max = $4, rate_limit_period_sec = $5,
  partition_concurrency = $6, partition_worker_concurrency = $7, partition_rate_limit_max = $8,
  partition_rate_limit_period_sec = $9, partitioned = $10, priority_enabled = $11, partition_queue = $12,
  while_waiting = $13, updated_at = case
    when updated_at >= cast($14 as bigint) then updated_at + 1
    else cast($14 as bigint)
  end, paused = $15, turn = turn + 1
where
  name = $1
  and updated_at = $16
returning
  name, application_name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec,
  partition_concurrency, partition_worker_concurrency, partition_rate_limit_max,
  partition_rate_limit_period_sec, partitioned, priority_enabled, partition_queue, while_waiting, paused,
  turn, created_at, updated_at;

-- queues.counted
with
  delays as materialized (
    select
      queue_name, count(*) as n
    from
      workflow_status
    where
      status = 'DELAYED'
      and (
        cast($1 as text) is null
        or queue_name = $1
      )
    group by
      queue_name
  )
select
  name, application_name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec,
  partition_concurrency, partition_worker_concurrency, partition_rate_limit_max,
  partition_rate_limit_period_sec, partitioned, priority_enabled, partition_queue, while_waiting, paused,
  turn, created_at, updated_at,
  (
    select
      count(*)
    from
      workflow_status s
    where
      status = 'ENQUEUED'
      and s.queue_name = q.name
  ) as waiting,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.status = 'PENDING'
      and (s.resting_owner = s.owner_xid) is not true
      and s.queue_name = q.name
  ) as running,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.status = 'PENDING'
      and (s.resting_owner = s.owner_xid)
      and s.queue_name = q.name
  ) as suspended,
  coalesce(
    (
      select
        n
      from
        delays
      where
        queue_name = q.name
    ),
    0
  ) as delayed
from
  queues q
where
  name >= ''
  and (
    cast($1 as text) is null
    or name = $1
  )
order by
  name;

-- queues.giveKeys-unlocked
with
  keyless as materialized (
    select
      workflow_uuid as id
    from
      workflow_status
    where
      queue_partition_key is null
      and workflow_uuid in (
        select
          w.workflow_uuid
        from
          workflow_status w
        where
          w.queue_name in (
            select
              value
            from
              json_each($1)
          )
          and w.queue_name is not null
          and status = 'ENQUEUED'
        union all
        select
          w.workflow_uuid
        from
          workflow_status w
        where
          w.queue_name in (
            select
              value
            from
              json_each($1)
          )
          and w.queue_name is not null
          and w.status = 'PENDING'
          and (w.resting_owner = w.owner_xid) is not true
        union all
        select
          w.workflow_uuid
        from
          workflow_status w
        where
          w.queue_name in (
            select
              value
            from
              json_each($1)
          )
          and w.queue_name is not null
          and w.status = 'PENDING'
          and (w.resting_owner = w.owner_xid)
        union all
        select
          w.workflow_uuid
        from
          workflow_status w
        where
          w.queue_name in (
            select
              value
            from
              json_each($1)
          )
          and w.queue_name is not null
          and status = 'DELAYED'
      )
    order by
      workflow_uuid
  )
update workflow_status
set
  queue_partition_key = $2
where
  workflow_uuid in (
    select
      id
    from
      keyless
  )
returning
  1 as given;

-- queues.list
select
  name, application_name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec,
  partition_concurrency, partition_worker_concurrency, partition_rate_limit_max,
  partition_rate_limit_period_sec, partitioned, priority_enabled, partition_queue, while_waiting, paused,
  turn, created_at, updated_at
from
  queues
where
  name >= ''
order by
  name;

-- queues.overview
select
  name, application_name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec,
  partition_concurrency, partition_worker_concurrency, partition_rate_limit_max,
  partition_rate_limit_period_sec, partitioned, priority_enabled, partition_queue, while_waiting, paused,
  turn, created_at, updated_at,
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = q.name
        limit
          1
      ) as t
  ) > 0 as waiting,
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          coalesce(status, '') = 'ENQUEUED'
          and recovery_attempts > 0
          and queue_name = q.name
        limit
          1
      ) as t
  ) > 0 as retried,
  cast(null as bigint) as next_due_at
from
  queues q
where
  q.name >= ''
union all
select
  '_dbos_internal_queue', null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null, null,
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = '_dbos_internal_queue'
        limit
          1
      ) as t
  ) > 0,
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          coalesce(status, '') = 'ENQUEUED'
          and recovery_attempts > 0
          and queue_name = '_dbos_internal_queue'
        limit
          1
      ) as t
  ) > 0,
  (
    select
      min(delay_until_epoch_ms)
    from
      workflow_status
    where
      status = 'DELAYED'
  );

-- queues.partitions
with recursive
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
  ),
  keys (k) as (
    select
      (
        select
          min(first_key)
        from
          (
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $1
                  and application_version = $5
                  and queue_partition_key > $7
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
            union all
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $1
                  and application_version is null
                  and $5 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $4
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and queue_partition_key > $7
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
          ) as t
      )
    union all
    select
      (
        select
          min(first_key)
        from
          (
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $1
                  and application_version = $5
                  and queue_partition_key > keys.k
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
            union all
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  status = 'ENQUEUED'
                  and queue_name = $1
                  and application_version is null
                  and $5 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $4
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and queue_partition_key > keys.k
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
          ) as t
      )
    from
      keys
    where
      keys.k is not null
  )
select
  k as partition,
  (
    select
      count(*)
    from
      (
        select
          *
        from
          (
            select
              1 as one
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $1
              and application_version = $5
              and queue_partition_key = k
              and (
                application_name is null
                or application_name = $4
              )
              and (
                select
                  coalesce(recovery_attempts, 0) > 0
                  and recovery_attempts * 2 >= k.most
                from
                  known k
                where
                  k.runnable = name
                  and k.class = coalesce(class_name, '')
                  and k.config = coalesce(config_name, '')
              ) = false
            order by
              application_version, priority, enqueue_seq, created_at
            limit
              cast($9 as int)
          ) part
        union all
        select
          *
        from
          (
            select
              1 as one
            from
              workflow_status
            where
              status = 'ENQUEUED'
              and queue_name = $1
              and application_version is null
              and $5 = (
                select
                  coalesce(name_in_app, version_name)
                from
                  application_versions
                where
                  version_name >= ''
                  and (
                    application_name is null
                    or application_name = $4
                  )
                order by
                  version_timestamp desc, created_at desc
                limit
                  1
              )
              and queue_partition_key = k
              and (
                application_name is null
                or application_name = $4
              )
              and (
                select
                  coalesce(recovery_attempts, 0) > 0
                  and recovery_attempts * 2 >= k.most
                from
                  known k
                where
                  k.runnable = name
                  and k.class = coalesce(class_name, '')
                  and k.config = coalesce(config_name, '')
              ) = false
            order by
              application_version, priority, enqueue_seq, created_at
            limit
              cast($9 as int)
          ) part
        limit
          cast($9 as int)
      ) as t
  ) as waiting,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.status = 'PENDING'
      and (s.resting_owner = s.owner_xid) is not true
      and s.queue_name = $1
      and s.queue_partition_key = k
  ) as running,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.rate_limited = true
      and s.queue_name = $1
      and s.queue_partition_key = k
      and s.started_at_epoch_ms > cast($2 as bigint)
  ) as recent_starts,
  (
    select
      s.started_at_epoch_ms
    from
      workflow_status s
    where
      s.rate_limited = true
      and s.queue_name = $1
      and s.queue_partition_key = k
      and s.started_at_epoch_ms > cast($2 as bigint)
    order by
      s.started_at_epoch_ms desc
    limit
      1
    offset
      cast($3 as int)
  ) as oldest_that_counts
from
  keys
where
  k is not null
limit
  cast($8 as int);

-- queues.partitions-of-suspects
with recursive
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($6)
      ) as k
  ),
  keys (k) as (
    select
      (
        select
          min(first_key)
        from
          (
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  coalesce(status, '-') = 'ENQUEUED'
                  and recovery_attempts > 0
                  and queue_name = $1
                  and application_version = $5
                  and queue_partition_key > $7
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
            union all
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  coalesce(status, '-') = 'ENQUEUED'
                  and recovery_attempts > 0
                  and queue_name = $1
                  and application_version is null
                  and $5 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $4
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and queue_partition_key > $7
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
          ) as t
      )
    union all
    select
      (
        select
          min(first_key)
        from
          (
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  coalesce(status, '-') = 'ENQUEUED'
                  and recovery_attempts > 0
                  and queue_name = $1
                  and application_version = $5
                  and queue_partition_key > keys.k
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
            union all
            select
              *
            from
              (
                select
                  queue_partition_key as first_key
                from
                  workflow_status
                where
                  coalesce(status, '-') = 'ENQUEUED'
                  and recovery_attempts > 0
                  and queue_name = $1
                  and application_version is null
                  and $5 = (
                    select
                      coalesce(name_in_app, version_name)
                    from
                      application_versions
                    where
                      version_name >= ''
                      and (
                        application_name is null
                        or application_name = $4
                      )
                    order by
                      version_timestamp desc, created_at desc
                    limit
                      1
                  )
                  and queue_partition_key > keys.k
                order by
                  application_version, queue_partition_key, priority, enqueue_seq, created_at
                limit
                  1
              ) part
          ) as t
      )
    from
      keys
    where
      keys.k is not null
  )
select
  k as partition,
  (
    select
      count(*)
    from
      (
        select
          *
        from
          (
            select
              1 as one
            from
              workflow_status
            where
              coalesce(status, '-') = 'ENQUEUED'
              and recovery_attempts > 0
              and queue_name = $1
              and application_version = $5
              and queue_partition_key = k
              and (
                application_name is null
                or application_name = $4
              )
              and (
                select
                  coalesce(recovery_attempts, 0) > 0
                  and recovery_attempts * 2 >= k.most
                from
                  known k
                where
                  k.runnable = name
                  and k.class = coalesce(class_name, '')
                  and k.config = coalesce(config_name, '')
              ) = true
            order by
              application_version, priority, enqueue_seq, created_at
            limit
              cast($9 as int)
          ) part
        union all
        select
          *
        from
          (
            select
              1 as one
            from
              workflow_status
            where
              coalesce(status, '-') = 'ENQUEUED'
              and recovery_attempts > 0
              and queue_name = $1
              and application_version is null
              and $5 = (
                select
                  coalesce(name_in_app, version_name)
                from
                  application_versions
                where
                  version_name >= ''
                  and (
                    application_name is null
                    or application_name = $4
                  )
                order by
                  version_timestamp desc, created_at desc
                limit
                  1
              )
              and queue_partition_key = k
              and (
                application_name is null
                or application_name = $4
              )
              and (
                select
                  coalesce(recovery_attempts, 0) > 0
                  and recovery_attempts * 2 >= k.most
                from
                  known k
                where
                  k.runnable = name
                  and k.class = coalesce(class_name, '')
                  and k.config = coalesce(config_name, '')
              ) = true
            order by
              application_version, priority, enqueue_seq, created_at
            limit
              cast($9 as int)
          ) part
        limit
          cast($9 as int)
      ) as t
  ) as waiting,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.status = 'PENDING'
      and (s.resting_owner = s.owner_xid) is not true
      and s.queue_name = $1
      and s.queue_partition_key = k
  ) as running,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.rate_limited = true
      and s.queue_name = $1
      and s.queue_partition_key = k
      and s.started_at_epoch_ms > cast($2 as bigint)
  ) as recent_starts,
  (
    select
      s.started_at_epoch_ms
    from
      workflow_status s
    where
      s.rate_limited = true
      and s.queue_name = $1
      and s.queue_partition_key = k
      and s.started_at_epoch_ms > cast($2 as bigint)
    order by
      s.started_at_epoch_ms desc
    limit
      1
    offset
      cast($3 as int)
  ) as oldest_that_counts
from
  keys
where
  k is not null
limit
  cast($8 as int);

-- queues.register
insert into
  queues as q (
    name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec, partition_concurrency,
    partition_worker_concurrency, partition_rate_limit_max, partition_rate_limit_period_sec, partitioned,
    priority_enabled, partition_queue, while_waiting, created_at, updated_at, application_name, turn
  )
select
  r.name, r.concurrency, r.worker_concurrency, r.rate_limit_max, r.rate_limit_period_sec,
  r.partition_concurrency, r.partition_worker_concurrency, r.partition_rate_limit_max,
  r.partition_rate_limit_period_sec, r.partitioned, r.priority_enabled, r.partition_queue, r.while_waiting,
  cast($1 as bigint), cast($1 as bigint), $2, cast($1 as bigint)
from
  (
    select
      $5 as "name", $6 as "concurrency", $7 as "worker_concurrency", $8 as "rate_limit_max",
      $9 as "rate_limit_period_sec", $10 as "partition_concurrency", $11 as "partition_worker_concurrency",
      $12 as "partition_rate_limit_max", $13 as "partition_rate_limit_period_sec", $14 as "partitioned",
      $15 as "priority_enabled", $16 as "partition_queue", $17 as "while_waiting"
  ) as r
where
  true
order by
  r.name
on conflict (name) do update
set
  concurrency = excluded.concurrency, worker_concurrency = excluded.worker_concurrency,
  rate_limit_max = excluded.rate_limit_max, rate_limit_period_sec = excluded.rate_limit_period_sec,
  partition_concurrency = excluded.partition_concurrency,
  partition_worker_concurrency = excluded.partition_worker_concurrency,
  partition_rate_limit_max = excluded.partition_rate_limit_max,
  partition_rate_limit_period_sec = excluded.partition_rate_limit_period_sec,
  partitioned = excluded.partitioned, priority_enabled = excluded.priority_enabled,
  partition_queue = excluded.partition_queue, while_waiting = excluded.while_waiting, updated_at = case
    when q.updated_at >= cast($1 as bigint) then q.updated_at + 1
    else cast($1 as bigint)
  end, application_name = coalesce(q.application_name, excluded.application_name), turn = q.turn + 1
where
  (
    q.application_name is null
    or q.application_name = excluded.application_name
    or excluded.application_name is null
  )
  and (
    $3 = 'always'
    or (
      $3 = 'update-if-latest-version'
      and (
        cast($4 as text) is null
        or $4 = (
          select
            coalesce(name_in_app, version_name)
          from
            application_versions
          where
            version_name >= ''
            and (
              application_name is null
              or application_name = $2
            )
          order by
            version_timestamp desc, created_at desc
          limit
            1
        )
      )
    )
  )
  and not (
    q.concurrency is not distinct from excluded.concurrency
    and q.worker_concurrency is not distinct from excluded.worker_concurrency
    and q.rate_limit_max is not distinct from excluded.rate_limit_max
    and q.rate_limit_period_sec is not distinct from excluded.rate_limit_period_sec
    and q.partition_concurrency is not distinct from excluded.partition_concurrency
    and q.partition_worker_concurrency is not distinct from excluded.partition_worker_concurrency
    and q.partition_rate_limit_max is not distinct from excluded.partition_rate_limit_max
    and q.partition_rate_limit_period_sec is not distinct from excluded.partition_rate_limit_period_sec
    and q.partitioned is not distinct from excluded.partitioned
    and q.priority_enabled is not distinct from excluded.priority_enabled
    and q.partition_queue is not distinct from excluded.partition_queue
    and q.while_waiting is not distinct from excluded.while_waiting
  );

-- queues.remove
delete from queues
where
  name = $1
  and not exists (
    select
      1
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and status = 'ENQUEUED'
  )
  and not exists (
    select
      1
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and w.status = 'PENDING'
      and (w.resting_owner = w.owner_xid) is not true
  )
  and not exists (
    select
      1
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and w.status = 'PENDING'
      and (w.resting_owner = w.owner_xid)
  )
  and not exists (
    select
      1
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and status = 'DELAYED'
  )
returning
  name;

-- queues.stray
with recursive
  names (name) as (
    select
      (
        select
          min(queue_name)
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name is not null
      )
    union all
    select
      (
        select
          min(queue_name)
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name > found.name
      )
    from
      names found
    where
      found.name is not null
  ),
  strays as (
    select
      found.name,
      (
        select
          workflow_uuid
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = found.name
        limit
          1
      ) as workflow_uuid,
      (
        select
          application_name
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = found.name
        limit
          1
      ) as app
    from
      names found
    where
      found.name is not null
      and found.name <> '_dbos_internal_queue'
      and found.name not in (
        select
          q.name
        from
          queues q
      )
  )
select
  name as queue_name, workflow_uuid
from
  strays
where
  workflow_uuid is not null
  and (
    app is null
    or app = $1
  )
order by
  name
limit
  20;

-- queues.unclaimable
with
  known as materialized (
    select
      k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most
    from
      (
        select
          value ->> 'runnable' as "runnable", value ->> 'class' as "class", value ->> 'config' as "config",
          value ->> 'most' as "most"
        from
          json_each($4)
      ) as k
  ),
  first_ones as (
    select
      name, class_name, config_name, application_version, workflow_uuid
    from
      workflow_status
    where
      status = 'ENQUEUED'
      and queue_name = $1
      and not coalesce(
        (
          (application_version = $3)
          or (
            application_version is null
            and $3 = (
              select
                coalesce(name_in_app, version_name)
              from
                application_versions
              where
                version_name >= ''
                and (
                  application_name is null
                  or application_name = $2
                )
              order by
                version_timestamp desc, created_at desc
              limit
                1
            )
          )
        )
        and (
          (
            application_name is null
            or application_name = $2
          )
          and (
            select
              coalesce(recovery_attempts, 0) > 0
              and recovery_attempts * 2 >= k.most
            from
              known k
            where
              k.runnable = name
              and k.class = coalesce(class_name, '')
              and k.config = coalesce(config_name, '')
          ) is not null
        ),
        false
      )
    limit
      1000
  )
select
  name, class_name, config_name, application_version, min(workflow_uuid) as workflow_uuid
from
  first_ones
group by
  name, class_name, config_name, application_version
order by
  name, class_name, config_name, application_version
limit
  20;

-- queues.unfinished
select
  (
    select
      count(*)
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and status = 'ENQUEUED'
  ) + (
    select
      count(*)
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and w.status = 'PENDING'
      and (w.resting_owner = w.owner_xid) is not true
  ) + (
    select
      count(*)
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and w.status = 'PENDING'
      and (w.resting_owner = w.owner_xid)
  ) + (
    select
      count(*)
    from
      workflow_status w
    where
      w.queue_name = $1
      and w.queue_name is not null
      and status = 'DELAYED'
  ) as count;

-- queues.usage
select
  name, application_name, concurrency, worker_concurrency, rate_limit_max, rate_limit_period_sec,
  partition_concurrency, partition_worker_concurrency, partition_rate_limit_max,
  partition_rate_limit_period_sec, partitioned, priority_enabled, partition_queue, while_waiting, paused,
  turn, created_at, updated_at,
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $1
        limit
          1
      ) as t
  ) > 0 as waiting,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.status = 'PENDING'
      and (s.resting_owner = s.owner_xid) is not true
      and s.queue_name = $1
  ) as running,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.rate_limited = true
      and s.queue_name = $1
      and s.started_at_epoch_ms > cast($2 as bigint)
  ) as recent_starts,
  (
    select
      s.started_at_epoch_ms
    from
      workflow_status s
    where
      s.rate_limited = true
      and s.queue_name = $1
      and s.started_at_epoch_ms > cast($2 as bigint)
    order by
      s.started_at_epoch_ms desc
    limit
      1
    offset
      cast($3 as int)
  ) as oldest_that_counts,
  (
    select
      count(*)
    from
      workflow_status s
    where
      s.status = 'PENDING'
      and (s.resting_owner = s.owner_xid) is not true
      and s.queue_name = $1
      and s.executor_id is distinct from cast($4 as text)
  ) as elsewhere
from
  queues q
where
  name = $1;

-- queues.waits
select
  (
    select
      count(*)
    from
      (
        select
          1
        from
          workflow_status
        where
          status = 'ENQUEUED'
          and queue_name = $1
        limit
          1
      ) as t
  ) > 0 as waiting;

