-- events.list
select
  key, value, serialization
from
  "dbos".workflow_events
where
  workflow_uuid = $1
order by
  key;

-- events.read
select
  r."workflowId" as workflow_uuid, r.key, e.value, e.serialization, w.status,
  (
    w.workflow_uuid is not null
    and coalesce(w.owner_xid, '') not like '________________.%'
  ) as of_dbos
from
  unnest($1::text[], $2::text[]) as r ("workflowId", "key")
  left join "dbos".workflow_events e on e.workflow_uuid = r."workflowId"
  and e.key = r.key
  left join "dbos".workflow_status w on w.workflow_uuid = r."workflowId";

-- events.set
with
  main as (
    insert into
      "dbos".workflow_events (workflow_uuid, key, value, serialization)
    select
      r."workflowId", r.key, r.value, r.serialization
    from
      unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[]) as r ("workflowId", "owner", "stepNumber", "key", "value", "serialization")
      cross join lateral (
        select
          1
        from
          "dbos".workflow_status w
        where
          w.workflow_uuid = r."workflowId"
          and w.owner_xid = r.owner
          and w.status || '' = 'PENDING'
        for share
      ) fence
    where
      true
    on conflict (workflow_uuid, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
    returning
      workflow_uuid, key, true as landed
  ),
  also0 as (
    insert into
      "dbos".workflow_events_history (workflow_uuid, function_id, key, value, serialization)
    select
      r."workflowId", r."stepNumber", r.key, r.value, r.serialization
    from
      unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[]) as r ("workflowId", "owner", "stepNumber", "key", "value", "serialization")
    where
      (r."workflowId", r.key) in (
        select
          workflow_uuid, key
        from
          main
      )
    on conflict (workflow_uuid, function_id, key) do update
    set
      value = excluded.value, serialization = excluded.serialization
  )
select
  *
from
  main;

