-- streams.list
select
  workflow_uuid, key, "offset", value, serialization
from
  streams
where
  workflow_uuid = $1
order by
  key, "offset";

-- streams.read
select
  r."workflowId" as workflow_uuid, r.key, r."from", w.status, s."offset", s.value, s.serialization,
  (
    w.workflow_uuid is not null
    and coalesce(w.owner_xid, '') not like '________________.%'
  ) as of_dbos,
  case
    when s.value is null then (
      select
        value in ('"__DBOS_STREAM_CLOSED__"', '__DBOS_STREAM_CLOSED__')
      from
        streams
      where
        workflow_uuid = r."workflowId"
        and key = r.key
        and "offset" < r."from"
      order by
        "offset" desc
      limit
        1
    )
  end as behind_end
from
  (
    select
      $2 as "workflowId", $3 as "key", $4 as "from"
  ) as r
  left join workflow_status w on w.workflow_uuid = r."workflowId"
  left join (
    select
      "offset", value, serialization
    from
      streams
    where
      workflow_uuid = $2
      and key = $3
      and "offset" >= $4
    order by
      "offset"
    limit
      $1
  ) s on true
order by
  s."offset";

