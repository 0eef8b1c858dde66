"""The service: an HTTP interface and pages over runs, with storage and workers.

The way of a request: `api.guard` (is it one of ours?), `api.journal` (what is written down), `api.identity` (who sends
it, and may they? see the table in `api.access`), then a route of `api` or a page of `pages`. Pages build the requests
that the HTTP interface takes (`pages.forms`), and both hand them to `api.runs.create_run`, which refuses what cannot
work and stores the run. A worker claims it (`worker`), keeps its lease (`heartbeat`) and lets a process of its own do
it (`attempt`, `execute`); a command in a terminal does its run itself (`local_runs`).

- `settings`, `server`: how a service is configured, opened and served.
- `requests`: what may be asked for. `jobs`, `execute`, `telling`, `run_folder`, `limits`: how a run is done.
- `storage`: `tables` and `database` (with migrations), `home` (folders), `uploads` and `assets` (tables and models),
  `runs`, `projects` and `accounts` with `passwords`, `log`, `backup`, `maintenance`.
- `api`: routes in `uploads`, `runs`, `watching`, `results`, `accounts`, `app`; their answers in `answers`, their
  errors in `errors`, what they share in `caller`; `table_tasks` reads uploaded tables in a process with limits.
- `pages`: `view` (how a page is made), `forms`, `words`, `data`; the pages themselves in `lists`, `new_data`,
  `new_audit`, `run_pages`, `exploring`, `follow_ups`, `comparing`, `account`, `administration`.
"""
