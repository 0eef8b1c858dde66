CREATE TABLE projects (
    id VARCHAR(32) NOT NULL,
    name VARCHAR(100) NOT NULL,
    created DATETIME NOT NULL,
    CONSTRAINT pk_projects PRIMARY KEY (id),
    CONSTRAINT uq_projects_name UNIQUE (name)
);
CREATE TABLE datasets (
    id VARCHAR(32) NOT NULL,
    project VARCHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    file VARCHAR(200) NOT NULL,
    size INTEGER NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    rows INTEGER,
    schema_text TEXT,
    created DATETIME NOT NULL,
    CONSTRAINT pk_datasets PRIMARY KEY (id),
    CONSTRAINT fk_datasets_project_projects FOREIGN KEY(project) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE INDEX ix_datasets_project ON datasets (project);
CREATE TABLE models (
    id VARCHAR(32) NOT NULL,
    project VARCHAR(32) NOT NULL,
    name VARCHAR(200) NOT NULL,
    file VARCHAR(200) NOT NULL,
    size INTEGER NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    created DATETIME NOT NULL,
    CONSTRAINT pk_models PRIMARY KEY (id),
    CONSTRAINT fk_models_project_projects FOREIGN KEY(project) REFERENCES projects (id) ON DELETE CASCADE
);
CREATE INDEX ix_models_project ON models (project);
CREATE TABLE runs (
    id VARCHAR(32) NOT NULL,
    project VARCHAR(32) NOT NULL,
    kind VARCHAR(20) NOT NULL,
    title VARCHAR(200) NOT NULL,
    config JSON NOT NULL,
    parent VARCHAR(32),
    state VARCHAR(20) NOT NULL,
    cancel BOOLEAN NOT NULL,
    progress JSON NOT NULL,
    result JSON,
    error TEXT,
    attempts INTEGER NOT NULL,
    created DATETIME NOT NULL,
    started DATETIME,
    finished DATETIME,
    worker VARCHAR(100),
    lease INTEGER NOT NULL,
    lease_until DATETIME,
    CONSTRAINT pk_runs PRIMARY KEY (id),
    CONSTRAINT fk_runs_project_projects FOREIGN KEY(project) REFERENCES projects (id) ON DELETE CASCADE,
    CONSTRAINT fk_runs_parent_runs FOREIGN KEY(parent) REFERENCES runs (id) ON DELETE SET NULL
);
CREATE INDEX ix_runs_listed ON runs (project, created, id);
CREATE INDEX ix_runs_waiting ON runs (state, created);
CREATE TABLE events (
    id INTEGER NOT NULL,
    run VARCHAR(32) NOT NULL,
    at DATETIME NOT NULL,
    kind VARCHAR(30) NOT NULL,
    data JSON NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (id),
    CONSTRAINT fk_events_run_runs FOREIGN KEY(run) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_events_run ON events (run);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES ('0001');
INSERT INTO projects (id, name, created) VALUES ('default', 'default', '2026-11-16 12:00:00.000001');
INSERT INTO datasets (id, project, name, file, size, sha256, created)
VALUES ('00000000000000000000000000000002', 'default', 'people', 'table.csv', 5, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '2026-11-16 12:00:00.000001');
INSERT INTO models (id, project, name, file, size, sha256, created)
VALUES ('00000000000000000000000000000003', 'default', 'ä model', 'model.onnx', 5, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '2026-11-16 12:00:00.000001');
INSERT INTO runs (id, project, kind, title, config, state, cancel, progress, result, attempts, created, lease)
VALUES ('00000000000000000000000000000001', 'default', 'audit', 'census, sex', '{}', 'done', 0, '{}', '{"findings": 3}', 1, '2026-11-16 12:00:00.000001', 1);
INSERT INTO events (run, at, kind, data)
VALUES ('00000000000000000000000000000001', '2026-11-16 12:00:00.000001', 'queued', '{}'), ('00000000000000000000000000000001', '2026-11-16 12:00:00.000001', 'done', '{}');
