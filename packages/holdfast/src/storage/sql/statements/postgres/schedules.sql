-- schedules.apply
insert into
  "dbos".workflow_schedules as s (
    schedule_id, schedule_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
    queue_name, catch_up, catch_up_limit, automatic_backfill, status, application_name, active_since
  )
select
  r."scheduleId", r.name, r."workflowName", r."className", r.cron, r.timezone, r.context, r."queueName",
  r."catchUp", r."catchUpLimit", r.backfill, 'ACTIVE', $1, cast($2 as bigint)
from
  unnest(
    $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
    $12::text[], $13::int[], $14::bool[]
  ) as r (
    "scheduleId", "name", "workflowName", "className", "cron", "timezone", "context", "queueName", "catchUp",
    "catchUpLimit", "backfill"
  )
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
        "dbos".application_versions
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
update "dbos".workflow_schedules
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
  "dbos".workflow_schedules as s (
    schedule_id, schedule_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
    queue_name, catch_up, catch_up_limit, automatic_backfill, status, application_name, active_since
  )
select
  r."scheduleId", r.name, r."workflowName", r."className", r.cron, r.timezone, r.context, r."queueName",
  r."catchUp", r."catchUpLimit", r.backfill, 'ACTIVE', $1, cast($2 as bigint)
from
  unnest(
    $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::int[], $13::bool[]
  ) as r (
    "scheduleId", "name", "workflowName", "className", "cron", "timezone", "context", "queueName", "catchUp",
    "catchUpLimit", "backfill"
  )
where
  true
on conflict (schedule_name) do nothing
returning
  schedule_name, application_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
  status, queue_name, catch_up, catch_up_limit, automatic_backfill, last_fired_at, active_since;

-- schedules.fire
with
  enqueue_turn as materialized (
    select
      nextval('"dbos".holdfast_enqueue_seq') as n
  ),
  held as materialized (
    select
      *
    from
      "dbos".workflow_schedules
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
    for share
  ),
  place as materialized (
    select
      name
    from
      "dbos".holdfast_hold_queues (
        array(
          select
            queue_name
          from
            held
          where
            queue_name is not null
        )
      ) as held (name)
  )
insert into
  "dbos".workflow_status (
    workflow_uuid, status, name, class_name, inputs, serialization, application_name, recovery_attempts,
    created_at, updated_at, queue_name, priority, schedule_name, workflow_timeout_ms, enqueue_seq
  )
select
  r."workflowId", 'ENQUEUED', h.workflow_name, nullif(h.workflow_class_name, ''), r.inputs, r.serialization,
  h.application_name, 0, cast($8 as bigint), cast($8 as bigint),
  coalesce(h.queue_name, '_dbos_internal_queue'), 0, h.schedule_name, r."timeoutMs",
  (
    select
      n
    from
      enqueue_turn
  ) * 1048576 + r.position
from
  held h
  cross join json_to_recordset($1::text::json) as r ("workflowId" text, "inputs" text, "serialization" text, "timeoutMs" bigint, "position" int)
where
  h.queue_name is null
  or h.queue_name in (
    select
      name
    from
      place
  )
order by
  r."workflowId" collate "C"
on conflict (workflow_uuid) do nothing
returning
  workflow_uuid;

-- schedules.list
select
  schedule_name, application_name, workflow_name, workflow_class_name, schedule, cron_timezone, context,
  status, queue_name, catch_up, catch_up_limit, automatic_backfill, last_fired_at, active_since
from
  "dbos".workflow_schedules
where
  (
    cast($1 as text) is null
    or application_name is null
    or application_name = $1
  )
order by
  schedule_name;

-- schedules.markFired
update "dbos".workflow_schedules
set
  last_fired_at = $2
where
  schedule_name = $1
  and (
    last_fired_at is null
    or last_fired_at < $2
  );

-- schedules.remove
delete from "dbos".workflow_schedules
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
update "dbos".workflow_schedules
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
  "dbos".workflow_status
where
  workflow_uuid = any ($1::text[]);

