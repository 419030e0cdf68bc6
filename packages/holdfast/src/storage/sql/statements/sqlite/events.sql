-- events.list
select
  key, value, serialization
from
  workflow_events
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
  (
    select
      $1 as "workflowId", $2 as "key"
  ) as r
  left join workflow_events e on e.workflow_uuid = r."workflowId"
  and e.key = r.key
  left join workflow_status w on w.workflow_uuid = r."workflowId";

-- events.set
insert into
  workflow_events (workflow_uuid, key, value, serialization)
select
  r."workflowId", r.key, r.value, r.serialization
from
  (
    select
      $1 as "workflowId", $2 as "owner", $3 as "stepNumber", $4 as "key", $5 as "value", $6 as "serialization"
  ) as r
  join workflow_status fence on fence.workflow_uuid = r."workflowId"
  and fence.owner_xid = r.owner
  and fence.status = 'PENDING'
where
  true
on conflict (workflow_uuid, key) do update
set
  value = excluded.value, serialization = excluded.serialization
returning
  workflow_uuid, key, true as landed;

