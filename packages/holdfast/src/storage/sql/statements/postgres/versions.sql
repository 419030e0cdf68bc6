-- versions.apps
select distinct
  application_name
from
  "dbos".application_versions
where
  version_name >= ''
  and application_name is not null;

-- versions.list
select
  coalesce(name_in_app, version_name) as name, application_name, created_at, version_timestamp
from
  "dbos".application_versions
where
  version_name >= ''
  and (
    version_name >= ''
    and (
      application_name is null
      or application_name = $1
    )
    or cast($1 as text) = ''
  )
order by
  version_timestamp desc, created_at desc;

-- versions.raise
update "dbos".application_versions
set
  version_timestamp = (
    select
      case
        when max(version_timestamp) >= cast($3 as bigint) then max(version_timestamp) + 1
        else cast($3 as bigint)
      end
    from
      "dbos".application_versions
    where
      version_name >= ''
  )
where
  coalesce(name_in_app, version_name) = $1
  and version_name >= ''
  and (
    application_name is null
    or application_name = $2
  )
  and version_timestamp = 0;

-- versions.register
insert into
  "dbos".application_versions (version_id, version_name, application_name, version_timestamp, created_at)
values
  (
    $1, $2, $3, case
      when cast($5 as boolean) then (
        select
          case
            when max(version_timestamp) >= cast($4 as bigint) then max(version_timestamp) + 1
            else cast($4 as bigint)
          end
        from
          "dbos".application_versions
        where
          version_name >= ''
      )
      else 0
    end, $4
  )
on conflict do nothing
returning
  version_id;

-- versions.registerSecond
insert into
  "dbos".application_versions (version_id, version_name, name_in_app, application_name, version_timestamp, created_at)
select
  $1, cast($3 as text) || '/' || $2 || $6, $2, $3, case
    when cast($5 as boolean) then (
      select
        case
          when max(version_timestamp) >= cast($4 as bigint) then max(version_timestamp) + 1
          else cast($4 as bigint)
        end
      from
        "dbos".application_versions
      where
        version_name >= ''
    )
    else 0
  end, cast($4 as bigint)
on conflict do nothing
returning
  version_id;

-- versions.setLatest
update "dbos".application_versions
set
  version_timestamp = (
    select
      case
        when max(version_timestamp) >= cast($3 as bigint) then max(version_timestamp) + 1
        else cast($3 as bigint)
      end
    from
      "dbos".application_versions
    where
      version_name >= ''
  )
where
  coalesce(name_in_app, version_name) = $1
  and version_name >= ''
  and (
    application_name is null
    or application_name = $2
  )
returning
  version_id;

