-- streams.list
select
  workflow_uuid, key, "offset", value, serialization
from
  "dbos".streams
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
        "dbos".streams
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
  unnest($2::text[], $3::text[], $4::int[]) as r ("workflowId", "key", "from")
  left join "dbos".workflow_status w on w.workflow_uuid = r."workflowId"
  left join lateral (
    select
      "offset", value, serialization
    from
      "dbos".streams
    where
      workflow_uuid = r."workflowId"
      and key = r."key"
      and "offset" >= r."from"
    order by
      "offset"
    limit
      $1
  ) s on true
order by
  s."offset";

