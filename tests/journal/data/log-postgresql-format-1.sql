CREATE TABLE feed (
    topic text NOT NULL COLLATE pg_catalog."C",
    first_cursor bigint NOT NULL,
    count bigint NOT NULL,
    segments bytea NOT NULL,
    digest bytea NOT NULL
);
CREATE TABLE log (
    is_only boolean DEFAULT true NOT NULL,
    application text NOT NULL,
    format integer NOT NULL,
    "position" bigint NOT NULL,
    writer text NOT NULL,
    CONSTRAINT log_is_only_check CHECK (is_only)
);
CREATE TABLE stored_events (
    notification_id bigint NOT NULL,
    originator_id text NOT NULL COLLATE pg_catalog."C",
    originator_version bigint NOT NULL,
    topic text NOT NULL,
    state bytea NOT NULL,
    digest bytea NOT NULL
);
CREATE TABLE stored_snapshots (
    originator_id text NOT NULL COLLATE pg_catalog."C",
    originator_version bigint NOT NULL,
    topic text NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE timers (
    stream text NOT NULL COLLATE pg_catalog."C",
    due bigint NOT NULL
);
CREATE TABLE tracking (
    application_name text NOT NULL COLLATE pg_catalog."C",
    notification_id bigint NOT NULL
);
INSERT INTO feed VALUES ('ses_1', 1, 2, '\x919281a56167656e74a261319293a4736169640081a4776f7264a568656c6c6f93a4736169640181a4776f7264a5776f726c64', '\x6460c0e6a6adb1491cee9e85a230a5f7df5e260eca1f79454f9ccae404056151');
INSERT INTO feed VALUES ('ses_1', 3, 1, '\x919281a56167656e74a261329193a4736169640081a4776f7264a3627965', '\x61749cccce60c7a350f39cd5c0c053a432de50930eeaa42a8f4a79f48b103e91');
INSERT INTO feed VALUES ('ses_1', 4, 1, '\x919281a56167656e74a261319193a4736169640081a4776f7264a46d6f7265', '\x400272fc8b4488d9eed0180ac6ce7cfbb97ee118179ddbea82cffd595f354b1d');
INSERT INTO log VALUES (true, 'reenact', 1, 4, 'b0a5374d1fb1411da2aaa1a49211ceff');
INSERT INTO stored_events VALUES (1, 'ses_1', 1, 'added:1', '\x92cf00060a24181e40009201a36f6e65', '\x99abada5b8cf0a8e5e10faf0d9c228f2efabf29b379d888751f288e55266f2ca');
INSERT INTO stored_events VALUES (2, 'ses_1', 2, 'added:1', '\x92cf00060a24181e40009202ac7a77656920e2809320e4ba8c', '\x04f7340c1f76f463ecd967826b9f690d4184ee5cddb027334bfe5eb4ae8c15bf');
INSERT INTO stored_events VALUES (3, 'ses_2', 1, 'added:1', '\x92cf00060a24181e400192d3ffffff0000000000a0', '\xfa2f3ec10b85c20b043c4d31bf539ad3f49308dce282546fc53db78b401d292a');
INSERT INTO stored_events VALUES (4, 'ses_1', 3, 'cleared:1', '\x92cf00060a24181e400290', '\x51236a4c929cd967517c0e7563e4cee5d464d10894282bcd7935255d8458dd0c');
INSERT INTO stored_snapshots VALUES ('ses_1', 3, 'sum:1', '\x930001ff');
INSERT INTO timers VALUES ('ses_2', 1700000000000500);
INSERT INTO timers VALUES ('ses_1', 1700000060000000);
ALTER TABLE ONLY feed
    ADD CONSTRAINT feed_pkey PRIMARY KEY (topic, first_cursor);
ALTER TABLE ONLY log
    ADD CONSTRAINT log_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY stored_events
    ADD CONSTRAINT stored_events_notification_id_key UNIQUE (notification_id);
ALTER TABLE ONLY stored_events
    ADD CONSTRAINT stored_events_pkey PRIMARY KEY (originator_id, originator_version);
ALTER TABLE ONLY stored_snapshots
    ADD CONSTRAINT stored_snapshots_pkey PRIMARY KEY (originator_id, originator_version);
ALTER TABLE ONLY timers
    ADD CONSTRAINT timers_pkey PRIMARY KEY (stream);
ALTER TABLE ONLY tracking
    ADD CONSTRAINT tracking_pkey PRIMARY KEY (application_name);
CREATE INDEX timers_by_due ON timers USING btree (due, stream);
