-- schedules.apply
insert into
  workflow_schedules as s (
    schedule_id, schedule_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
    queue_name, catch_up, catch_up_limit, automatic_backfill, status, application_name, active_since
  )
select
  r."scheduleId", r.name, r."workflowName", r."className", r.cron, r.timezone, r.context, r."queueName",
  r."catchUp", r."catchUpLimit", r.backfill, 'ACTIVE', $1, cast($2 as bigint)
from
  (
    select
      $4 as "scheduleId", $5 as "name", $6 as "workflowName", $7 as "className", $8 as "cron",
      $9 as "timezone", $10 as "context", $11 as "queueName", $12 as "catchUp", $13 as "catchUpLimit",
      $14 as "backfill"
  ) as r
where
  true
on conflict (schedule_name) do update
set
  workflow_name = excluded.workflow_name, workflow_class_name = excluded.workflow_class_name,
  schedule = excluded.schedule, cron_timezone = excluded.cron_timezone, context = excluded.context,
  queue_name = excluded.queue_name, catch_up = excluded.catch_up, catch_up_limit = excluded.catch_up_limit,
  automatic_backfill = excluded.automatic_backfill,
  application_name = coalesce(s.application_name, excluded.application_name), active_since = case
    when s.schedule is distinct from excluded.schedule
    or s.cron_timezone is distinct from excluded.cron_timezone then excluded.active_since
    else s.active_since
  end
where
  (
    s.application_name is null
    or excluded.application_name is null
    or s.application_name = excluded.application_name
  )
  and (
    cast($3 as text) is null
    or $3 = (
      select
        coalesce(name_in_app, version_name)
      from
        application_versions
      where
        version_name >= ''
        and (
          application_name is null
          or application_name = $1
        )
      order by
        version_timestamp desc, created_at desc
      limit
        1
    )
  )
  and (
    s.workflow_name is distinct from excluded.workflow_name
    or s.workflow_class_name is distinct from excluded.workflow_class_name
    or s.schedule is distinct from excluded.schedule
    or s.cron_timezone is distinct from excluded.cron_timezone
    or s.context is distinct from excluded.context
    or s.queue_name is distinct from excluded.queue_name
    or s.catch_up is distinct from excluded.catch_up
    or s.catch_up_limit is distinct from excluded.catch_up_limit
    or s.automatic_backfill is distinct from excluded.automatic_backfill
    or (
      s.application_name is null
      and excluded.application_name is not null
    )
  );

-- schedules.change
update workflow_schedules
set
  schedule = cast($4 as text), cron_timezone = cast($5 as text), catch_up = cast($6 as text),
  automatic_backfill = (cast($6 as text) = 'all'), catch_up_limit = cast($7 as int), active_since = case
    when schedule is distinct from cast($4 as text)
    or cron_timezone is distinct from cast($5 as text) then cast($3 as bigint)
    else active_since
  end
where
  schedule_name = $1
  and (
    cast($2 as text) is null
    or application_name is null
    or application_name = $2
  )
returning
  schedule_name, application_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
  status, queue_name, catch_up, catch_up_limit, automatic_backfill, last_fired_at, active_since;

-- schedules.create
insert into
  workflow_schedules as s (
    schedule_id, schedule_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
    queue_name, catch_up, catch_up_limit, automatic_backfill, status, application_name, active_since
  )
select
  r."scheduleId", r.name, r."workflowName", r."className", r.cron, r.timezone, r.context, r."queueName",
  r."catchUp", r."catchUpLimit", r.backfill, 'ACTIVE', $1, cast($2 as bigint)
from
  (
    select
      $3 as "scheduleId", $4 as "name", $5 as "workflowName", $6 as "className", $7 as "cron",
      $8 as "timezone", $9 as "context", $10 as "queueName", $11 as "catchUp", $12 as "catchUpLimit",
      $13 as "backfill"
  ) as r
where
  true
on conflict (schedule_name) do nothing
returning
  schedule_name, application_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
  status, queue_name, catch_up, catch_up_limit, automatic_backfill, last_fired_at, active_since;

-- schedules.fire
with
  held as materialized (
    select
      *
    from
      workflow_schedules
    where
      schedule_name = $2
      and workflow_name = $3
      and coalesce(workflow_class_name, '') = $9
      and schedule = $4
      and cron_timezone is not distinct from cast($5 as text)
      and context = $6
      and (
        status = 'ACTIVE'
        or cast($7 as boolean)
      )
  ),
  place as materialized (
    select
      name
    from
      queues
    where
      name in (
        select
          queue_name
        from
          held
        where
          queue_name is not null
      )
  )
insert into
  workflow_status (
    workflow_uuid, status, name, class_name, inputs, serialization, application_name, recovery_attempts,
    created_at, updated_at, queue_name, priority, schedule_name, workflow_timeout_ms, enqueue_seq
  )
select
  r."workflowId", 'ENQUEUED', h.workflow_name, nullif(h.workflow_class_name, ''), r.inputs, r.serialization,
  h.application_name, 0, cast($8 as bigint), cast($8 as bigint),
  coalesce(h.queue_name, '_dbos_internal_queue'), 0, h.schedule_name, r."timeoutMs",
  (
    select
      coalesce(max(enqueue_seq), 0) + 1
    from
      workflow_status
    where
      enqueue_seq is not null
  ) + r.position
from
  held h
  cross join (
    select
      value ->> 'workflowId' as "workflowId", value ->> 'inputs' as "inputs",
      value ->> 'serialization' as "serialization", value ->> 'timeoutMs' as "timeoutMs",
      value ->> 'position' as "position"
    from
      json_each($1)
  ) as r
where
  h.queue_name is null
  or h.queue_name in (
    select
      name
    from
      place
  )
order by
  r."workflowId"
on conflict (workflow_uuid) do nothing
returning
  workflow_uuid;

-- schedules.list
select
  schedule_name, application_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
  status, queue_name, catch_up, catch_up_limit, automatic_backfill, last_fired_at, active_since
from
  workflow_schedules
where
  (
    cast($1 as text) is null
    or application_name is null
    or application_name = $1
  )
order by
  schedule_name;

-- schedules.markFired
update workflow_schedules
set
  last_fired_at = $2
where
  schedule_name = $1
  and (
    last_fired_at is null
    or last_fired_at < $2
  );

-- schedules.remove
delete from workflow_schedules
where
  schedule_name = $1
  and (
    cast($2 as text) is null
    or application_name is null
    or application_name = $2
  )
returning
  schedule_name;

-- schedules.setStatus
update workflow_schedules
set
  active_since = case
    when status = 'PAUSED'
    and $4 = 'ACTIVE' then cast($3 as bigint)
    else active_since
  end, status = $4
where
  schedule_name = $1
  and (
    cast($2 as text) is null
    or application_name is null
    or application_name = $2
  )
returning
  schedule_name, application_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
  status, queue_name, catch_up, catch_up_limit, automatic_backfill, last_fired_at, active_since;

-- schedules.taken
select
  workflow_uuid
from
  workflow_status
where
  workflow_uuid in (
    select
      value
    from
      json_each($1)
  );

